//! `Script`: a Lua script for one kind of request, and its SHA-1.

use std::fmt::Write;
use std::sync::OnceLock;

use tollgate_core::inside::twins::{TWINS, Twin, code};
use tollgate_core::store::{Operation, Request};

/// The script for up to [`MOST_OF_FEW`] limits: no loop, and all numbers in local variables.
const FEW: &str = include_str!("few.lua");
/// The part of [`FEW`] for each limit after the first.
const SCOPE: &str = include_str!("scope.lua");
/// The part of [`FEW`] that records a call for one limit.
const RECORD: &str = include_str!("record.lua");
/// The same as [`FEW`], for [`Operation::Reserve`].
const RESERVE: &str = include_str!("reserve.lua");
/// The part of [`RESERVE`] for each limit after the first.
const RESERVE_SCOPE: &str = include_str!("reserve_scope.lua");
/// The part of [`RESERVE`] that records a call for one limit.
const RESERVE_RECORD: &str = include_str!("reserve_record.lua");
/// The function that decides any request.
const UNIT: &str = include_str!("unit.lua");
/// The script for more limits, and for refunds and [`Operation::TakeUpTo`].
const MANY: &str = include_str!("many.lua");
/// The script for several requests.
const BATCH: &str = include_str!("batch.lua");
/// The function in [`BATCH`] that consumes from a limit with one algorithm.
const MACHINE_ALONE: &str = include_str!("machine_alone.lua");
/// The function of one algorithm in [`UNIT`].
const MACHINE: &str = include_str!("machine.lua");
/// The part of [`MACHINE`] for [`Operation::Reserve`], if the algorithm has reservations.
const MACHINE_RESERVE: &str = include_str!("machine_reserve.lua");
/// The part of [`MACHINE`] for [`Operation::Block`], if the algorithm can block.
const MACHINE_BLOCK: &str = include_str!("machine_block.lua");

/// The function in [`UNIT`] that says whether a call brought the period that it needs.
const COVER: &str = include_str!("cover.lua");
/// The part of [`UNIT`] that calls it for each limit of a request.
const CHECK_COVER: &str = include_str!("check_cover.lua");

/// What precedes a script that decides a call which has an id.
const RECALL: &str = include_str!("recall.lua");
/// What follows a script that decides a call which has an id, instead of `return reply`.
const REMEMBER: &str = include_str!("remember.lua");

/// What a reply begins with, if a call did not bring a period that it needs: the instant follows.
pub(super) const UNCOVERED: u8 = 2;

/// The most limits that [`FEW`] decides.
const MOST_OF_FEW: u32 = 4;

/// The functions of Lua and Redis that scripts call, with their local names.
const NAMES: [(&str, &str); 18] = [
    ("call", "redis.call"),
    ("ceil", "math.ceil"),
    ("concat", "table.concat"),
    ("find", "string.find"),
    ("floor", "math.floor"),
    ("format", "string.format"),
    ("frexp", "math.frexp"),
    ("max", "math.max"),
    ("min", "math.min"),
    ("pack", "struct.pack"),
    ("pcall", "redis.pcall"),
    ("protected", "pcall"),
    ("rep", "string.rep"),
    ("sha1hex", "redis.sha1hex"),
    ("sort", "table.sort"),
    ("sub", "string.sub"),
    ("table_unpack", "unpack"),
    ("unpack", "struct.unpack"),
];

/// A Lua script and its SHA-1.
#[derive(Debug)]
pub struct Script {
    text: String,
    sha1: String,
}

impl Script {
    fn new(text: String) -> Self {
        let sha1 = sha1_smol::Sha1::from(&text).digest().to_string();
        Self { text, sha1 }
    }

    /// Returns the script with this text, which calls functions by their local names.
    pub(super) fn of_text(text: &str) -> Self {
        Self::new(with_names(text))
    }

    /// Returns the text, for `SCRIPT LOAD`.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the SHA-1 of the text in lower-case hexadecimal, for `EVALSHA`.
    #[must_use]
    pub fn sha1(&self) -> &str {
        &self.sha1
    }

    /// Returns the script that decides `request`.
    ///
    /// Limits with the same algorithms share a script, whatever their parameters. There is one
    /// script for each sequence of up to four algorithms, to consume, one to peek, one to reserve,
    /// and one for each set of algorithms, for all other requests. If the call `has_id`, the script
    /// also keeps the answer.
    pub(super) fn of(request: &Request<'_>, has_id: bool) -> &'static Self {
        const SEQUENCES: usize = (TWINS.len() + 1).pow(MOST_OF_FEW);
        static FEW: [[OnceLock<Box<Script>>; SEQUENCES]; 6] =
            [const { [const { OnceLock::new() }; SEQUENCES] }; 6];
        static MANY: [[OnceLock<Box<Script>>; SETS]; 2] =
            [const { [const { OnceLock::new() }; SETS] }; 2];
        let codes = request.checks().iter();
        let codes = codes.map(|check| code(check.limit().algorithm()));
        match Form::of(request) {
            Form::Few(act) => {
                // Digits from 1 to how many algorithms there are: no two sequences have one number.
                let sequence = codes
                    .clone()
                    .fold(0, |sequence, code| sequence * TWINS.len() + code + 1);
                let act_and_id = 2 * act as usize + usize::from(has_id);
                FEW[act_and_id][sequence].get_or_init(|| {
                    let twins: Vec<_> = codes.map(|code| &TWINS[code]).collect();
                    Box::new(Self::new(few(&twins, act, has_id)))
                })
            }
            Form::Many => {
                let set = set_of(request);
                MANY[usize::from(has_id)][set]
                    .get_or_init(|| Box::new(Self::new(many(set, has_id))))
            }
        }
    }

    /// Returns the script that decides several requests with the algorithms in `set`.
    pub(super) fn of_batch(set: usize) -> &'static Self {
        static BATCHES: [OnceLock<Box<Script>>; SETS] = [const { OnceLock::new() }; SETS];
        BATCHES[set].get_or_init(|| Box::new(Self::new(batch(set))))
    }
}

/// How many sets of algorithms there are.
const SETS: usize = 1 << TWINS.len();

/// Returns the set of the algorithms of `request`, one bit for each.
pub(super) fn set_of(request: &Request<'_>) -> usize {
    let codes = request.checks().iter();
    let codes = codes.map(|check| code(check.limit().algorithm()));
    codes.fold(0, |set, code| set | 1 << code)
}

/// The form of a request's script, which also determines the layout of the argument.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Form {
    /// No loop: reads up to [`MOST_OF_FEW`] limits, and records the call, unless it is a peek.
    Few(Act),
    /// A loop over any number of limits, for any operation.
    Many,
}

/// What the script of [`Form::Few`] does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Act {
    Consume,
    Peek,
    Reserve,
}

impl Act {
    /// Returns how many doubles precede the limits in the argument.
    const fn head(self) -> usize {
        match self {
            Self::Consume | Self::Peek => 2,
            Self::Reserve => 3,
        }
    }
}

impl Form {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let few = u32::try_from(request.checks().len()).is_ok_and(|checks| checks <= MOST_OF_FEW);
        match request.operation() {
            Operation::Consume if few => Self::Few(Act::Consume),
            Operation::Peek if few => Self::Few(Act::Peek),
            Operation::Reserve { .. } if few => Self::Few(Act::Reserve),
            _ => Self::Many,
        }
    }
}

/// How a frame reads and writes a state that is a string, at `key`.
struct Access {
    /// The value, or false.
    get: &'static str,
    /// Writes `state`, to be kept for `ttl` milliseconds.
    set: &'static str,
}

/// One command for each state.
const AT_ONCE: Access = Access {
    get: "call('GET', key)",
    set: "call('SET', key, state, 'PX', format('%d', ttl))",
};
/// The functions of [`BATCH`], which reads the states of all requests together, and writes a state
/// that several share once.
const TOGETHER: Access = Access {
    get: "get(key)",
    set: "set(key, state, ttl)",
};
/// The same, in [`MACHINE_ALONE`].
const TOGETHER_ALONE: Access = Access {
    get: "(values[base + 1] or get(key))",
    set: "set_alone(key, state, ttl)",
};

/// Returns the script without a loop, for one limit of each of `twins`, in this order.
fn few(twins: &[&Twin], act: Act, has_id: bool) -> String {
    let [first, scope, record] = match act {
        Act::Consume => [FEW, SCOPE, RECORD],
        Act::Peek => [FEW, SCOPE, ""],
        Act::Reserve => [RESERVE, RESERVE_SCOPE, RESERVE_RECORD],
    };
    // Each scope contains the next, so build them from last to first.
    let mut scopes = String::new();
    for (index, twin) in twins.iter().enumerate().rev() {
        let before: usize = twins[..index].iter().map(|twin| doubles(twin)).sum();
        let frame = if index == 0 { first } else { scope };
        scopes = fill(frame, &|name| match name {
            "index" => (index + 1).to_string(),
            "formats" => "d".repeat(doubles(twin)),
            "place" => (8 * (act.head() + before) + 1).to_string(),
            "record" => fill(record, &|name| part(twin, &AT_ONCE, name)),
            "check_cover" if covers(twin) => {
                let uncovered = format!("pack('<bd', {UNCOVERED}, now)");
                // The hash of a call that has an id precedes every reply.
                let hash = if has_id {
                    "sub(ARGV[1], -16, -9) .. "
                } else {
                    ""
                };
                let cover = part(twin, &AT_ONCE, "cover");
                format!("\nif not ({cover}) then return {hash}{uncovered} end")
            }
            "check_cover" => String::new(),
            "inner" => scopes.clone(),
            name => part(twin, &AT_ONCE, name),
        });
    }
    answering(&scopes, has_id)
}

/// Returns the whole script, which returns its `reply`; if the call `has_id`, it keeps that, too.
fn answering(text: &str, has_id: bool) -> String {
    with_names(&if has_id {
        [RECALL, text, REMEMBER].concat()
    } else {
        [text, "return reply\n"].concat()
    })
}

/// Returns how many doubles a limit takes in the argument of [`few`]: its cost, whether denied
/// calls count, and its parameters.
fn doubles(twin: &Twin) -> usize {
    2 + twin.parameters.len()
}

/// Returns the script for any number of limits with the algorithms in `set`.
fn many(set: usize, has_id: bool) -> String {
    let text = fill(MANY, &|name| match name {
        "unit" => unit(set, &AT_ONCE),
        // The last key is that of the answer.
        "count" if has_id => "#KEYS - 1".to_owned(),
        "count" => "#KEYS".to_owned(),
        name => unknown(name),
    });
    answering(&text, has_id)
}

/// Returns the script for several requests with the algorithms in `set`.
fn batch(set: usize) -> String {
    let alone = |twin| fill(MACHINE_ALONE, &|name| part(twin, &TOGETHER_ALONE, name));
    let has_strings = used(set).any(|(_, twin)| !twin.is_list);
    with_names(&fill(BATCH, &|name| match name {
        "has_strings" => has_strings.to_string(),
        "unit" => unit(set, &TOGETHER),
        "alone" => used(set).map(|(_, twin)| alone(twin)).collect(),
        "names_of_alone" => names(used(set), "alone_"),
        "and_covered" if covering(set).next().is_some() => {
            " and (not covers[code] or covers[code](a, b, c, d))".to_owned()
        }
        "and_covered" => String::new(),
        name => unknown(name),
    }))
}

/// Returns the function that decides a request with the algorithms in `set`.
fn unit(set: usize, access: &Access) -> String {
    let machine = |twin: &Twin| {
        let only_with = |section: &str, frame: &str| match twin.section(section).as_str() {
            "" => String::new(),
            _ => fill(frame, &|name| part(twin, access, name)),
        };
        fill(MACHINE, &|name| match name {
            "later" => only_with("delay", MACHINE_RESERVE),
            "giving" => only_with(
                "give",
                "\n  if operation == GIVE then\n    @give\n    @save\n    return\n  end",
            ),
            "blocking" => only_with("block", MACHINE_BLOCK),
            "if_ahead" => only_with("ahead", "\n    if is_ahead then\n@ahead\n    end"),
            name => part(twin, access, name),
        })
    };
    fill(UNIT, &|name| match name {
        "machines" => used(set).map(|(_, twin)| machine(twin)).collect(),
        "names" => names(used(set), ""),
        "covers" | "check_cover" if covering(set).next().is_none() => String::new(),
        "covers" => {
            let functions =
                covering(set).map(|(_, twin)| fill(COVER, &|name| part(twin, access, name)));
            let functions: String = functions.collect();
            let names = names(covering(set), "covers_");
            format!("\n{functions}\nlocal covers = {{ {names} }}")
        }
        "check_cover" => {
            let check = fill(CHECK_COVER, &|name| match name {
                "uncovered" => UNCOVERED.to_string(),
                name => unknown(name),
            });
            format!("\n{check}")
        }
        name => unknown(name),
    })
}

/// Returns the algorithms in `set`, with their codes.
fn used(set: usize) -> impl Iterator<Item = (usize, &'static Twin)> {
    let all = TWINS.iter().enumerate();
    all.filter(move |(code, _)| set & 1 << code != 0)
}

/// Returns whether the calls of an algorithm bring periods.
fn covers(twin: &Twin) -> bool {
    !twin.section("cover").is_empty()
}

/// Returns the algorithms in `set` whose calls bring periods, with their codes.
fn covering(set: usize) -> impl Iterator<Item = (usize, &'static Twin)> {
    used(set).filter(|(_, twin)| covers(twin))
}

/// Returns the functions of `twins` by their codes, as the fields of a table.
fn names(twins: impl Iterator<Item = (usize, &'static Twin)>, prefix: &str) -> String {
    let fields = twins.map(|(code, twin)| format!("[{code}] = {prefix}{}", twin.function()));
    fields.collect::<Vec<_>>().join(", ")
}

/// Returns the part of a frame that is called `name`, for a limit with this algorithm.
fn part(twin: &Twin, access: &Access, name: &str) -> String {
    match name {
        "name" => twin.function(),
        "parameters" => twin.parameters.join(", "),
        "load" | "save" if twin.is_list => String::new(),
        "load" => format!("local raw = {} or ''", access.get),
        "save" => format!("if state then {} end", access.set),
        "left" if twin.section(name).is_empty() => part(twin, access, "remaining"),
        "cover" | "read" | "search" | "fits" | "remaining" | "left" | "ahead" | "answer"
        | "block" | "give" | "lower" | "delay" | "reserve" | "commit" | "locate" | "refund" => {
            fill(&twin.section(name), &|name| part(twin, access, name))
        }
        name => unknown(name),
    }
}

/// Leaves a name that no frame has, for the test of assembled scripts to find.
fn unknown(name: &str) -> String {
    format!("@{name}")
}

/// Returns `frame` with the part called `name` in the place of each `@name`.
fn fill(frame: &str, part: &dyn Fn(&str) -> String) -> String {
    let frame = without_comments(frame);
    let mut pieces = frame.split('@');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|c| !is_in_name(c)).unwrap_or(piece.len());
        let (name, rest) = piece.split_at(end);
        text.push_str(part(name).trim_end());
        text.push_str(rest);
    }
    text
}

fn is_in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns `text` without the lines that are comments, which a server need not hold.
fn without_comments(text: &str) -> String {
    let lines = text.split_inclusive('\n');
    lines
        .filter(|line| !line.trim_start().starts_with("--"))
        .collect()
}

/// Declares the functions that `text` calls as locals before it.
fn with_names(text: &str) -> String {
    let text = &without_comments(text);
    let used = || NAMES.iter().filter(|(name, _)| calls(text, name));
    let mut whole = String::new();
    let (names, meanings): (Vec<_>, Vec<_>) = used().copied().unzip();
    let _ = writeln!(
        whole,
        "local {} = {}",
        names.join(", "),
        meanings.join(", ")
    );
    whole.push_str(text);
    whole
}

/// Returns whether `text` calls the function `name`.
fn calls(text: &str, name: &str) -> bool {
    text.match_indices(&format!("{name}(")).any(|(at, _)| {
        let before = text[..at].bytes().next_back();
        !before.is_some_and(|byte| is_in_name(char::from(byte)) || byte == b'.')
    })
}

#[cfg(test)]
mod tests;
