//! Limits, schedules and leases on real servers: one table of calls on keys of every state, and what
//! troubles them: commands that are denied, no memory, lost replies and scripts, and keys of other
//! programs.

pub(crate) mod leases;
mod limits;
mod operate;
mod schedules;

use tollgate_core::{ErrorKind, Receipt, StoreError};
use tollgate_testkit::{Flavor, Reply, Server};
use tollgate_wire::{Options, WireStore};

use crate::engine::{Raw, START as NOW, changes, fresh};

pub(crate) const SECOND: u64 = 1_000_000;
/// What a key is kept longer for at a caller's instant, in milliseconds.
pub(crate) const SLACK: u64 = 600_000;

type Store = WireStore<Raw>;

/// What a call was answered.
#[derive(Debug, Eq, PartialEq)]
struct Answer {
    shown: String,
    /// Whether the state may have changed: not if the call was refused, or only looked.
    may_change: bool,
}

/// A kind of requests, about one key or a few.
trait Family {
    fn name(&self) -> String;

    fn options(&self) -> Options {
        Options::new()
    }

    /// Returns the rows of the documentation that list the commands of this family.
    fn rows(&self) -> Vec<&'static str>;

    /// Returns whether a call may have written something when this command is refused.
    fn writes_before(&self, _refused: &str) -> bool {
        false
    }

    /// Returns how many states [`prepare`](Self::prepare) makes.
    fn states(&self) -> usize;

    /// Brings keys without a state into one, and returns the receipts of the calls that did.
    fn prepare(&self, store: &Store, state: usize) -> Vec<Option<Receipt>>;

    fn calls(&self) -> Vec<Call>;

    /// Makes a call, after those that prepared a state.
    fn ask(
        &self,
        store: &Store,
        call: usize,
        state: usize,
        receipts: &[Option<Receipt>],
    ) -> Result<Answer, StoreError>;

    fn reset(&self, store: &Store) -> Result<(), StoreError>;

    /// Makes a call by the server's clock that changes nothing.
    fn look_by_clock(&self, store: &Store) -> Result<(), StoreError>;

    /// Returns how many milliseconds a key must live, or `None` if it holds nothing that counts.
    fn must_live(&self, _store: &Store) -> Option<i64> {
        None
    }

    /// Returns what the error about a lost reply says.
    fn advice(&self) -> &'static str {
        "with the same id"
    }

    /// Returns a key at callers' instants, behind the prefix.
    fn key(&self) -> &'static str;

    /// Returns values of other programs: each is written by a command on the key, and the error about
    /// it says this.
    fn foreign(&self) -> Vec<(Vec<Vec<u8>>, &'static str)>;
}

/// A call of a family.
struct Call {
    shown: String,
    /// Whether a server without memory refuses it, in one state at least.
    needs_memory: bool,
    is_read: bool,
}

fn every_family() -> Vec<Box<dyn Family>> {
    let mut families = limits::families();
    families.extend([256, 0].map(|few| Box::new(schedules::Schedules { few }) as Box<dyn Family>));
    families.push(Box::new(leases::Leases));
    families
}

/// Those whose users can be told what they need: of limits, one for each row of the documentation.
fn families_of_users() -> Vec<Box<dyn Family>> {
    let mut families = every_family();
    families.retain(|family| limits::FOR_USERS.contains(&&*family.name()) || !family.is_limits());
    families
}

impl dyn Family {
    fn is_limits(&self) -> bool {
        self.advice() != "with the same id"
    }

    /// Calls `run` with the index of each state and each call, and what they are.
    fn each(&self, mut run: impl FnMut(usize, usize, &Call, &str)) {
        for state in 0..self.states() {
            for (index, call) in self.calls().iter().enumerate() {
                let what = format!("{} of {}, in state {state}", call.shown, self.name());
                run(state, index, call, &what);
            }
        }
    }

    /// Brings the keys into a state, whatever they held.
    fn begin(&self, store: &Store, state: usize) -> Vec<Option<Receipt>> {
        self.reset(store).unwrap();
        self.prepare(store, state)
    }

    /// Returns the commands that the documentation lists.
    fn commands(&self) -> Vec<String> {
        let text = include_str!("../../../../../docs/internals/server.md");
        let rows = self.rows().into_iter().map(|name| {
            let mut lines = text.lines();
            let row = lines.find(|line| line.starts_with(&format!("| {name}")));
            row.unwrap_or_else(|| panic!("no row {name}"))
        });
        let mut commands = Vec::new();
        for word in rows.flat_map(|row| row.split([' ', '`'])) {
            let command = word.replace('\\', "");
            if command.starts_with('+') && !commands.contains(&command) {
                commands.push(command);
            }
        }
        commands
    }

    /// Checks that every key expires, and not before what it holds has ceased to count.
    fn assert_lives(&self, store: &Store, what: &str) {
        let raw = store.engine();
        let least = self.must_live(store);
        let keys = raw.keys(store.options());
        assert!(!keys.is_empty() || least.is_none(), "{what}: all is gone");
        for key in keys {
            let left = raw.pttl(&key);
            assert!(left > 0, "{what}: no TTL");
            // A test may take a minute.
            let least = least.unwrap_or(0) - 60_000;
            assert!(left >= least, "{what}: {left} of {least} ms");
        }
    }
}

/// A store that may do everything, and one of a user on the same keys.
pub(crate) struct Users {
    pub(crate) all: Store,
    pub(crate) user: Store,
}

/// Makes a user who may run `commands` on keys of a fresh prefix.
pub(crate) fn users(
    options: Options,
    mut connect: impl FnMut() -> Raw,
    commands: &[&str],
) -> Users {
    let prefix = fresh("acl");
    let raw = connect();
    raw.log_in_as_user(&format!("{prefix}:*"), commands);
    let options = options.with_prefix(&prefix).unwrap();
    Users {
        all: WireStore::new(connect(), options.clone()),
        user: WireStore::new(raw, options),
    }
}

/// Returns a store on a server of a test's own.
fn store_on(server: &Server, options: Options) -> Store {
    let raw = Raw::over(server.connection(), None);
    WireStore::new(raw, options)
}

/// Returns what every key of a store holds, whatever its type is.
pub(crate) fn everything(store: &Store) -> Vec<String> {
    let raw = store.engine();
    let mut held: Vec<_> = raw.keys(store.options()).into_iter().collect();
    held.sort();
    let held = held.into_iter().map(|key| {
        let reads: [&[&[u8]]; 3] = [
            &[b"GET", &key],
            &[b"LRANGE", &key, b"0", b"-1"],
            &[b"HGETALL", &key],
        ];
        let mut replies = reads.into_iter().map(|words| raw.command(words));
        let value = replies.find(|reply| !matches!(reply, Reply::Error(_)));
        // Fields come in any order.
        let mut pairs: Vec<_> = match &value {
            Some(Reply::Array(items)) => items.chunks(2).map(|pair| format!("{pair:?}")).collect(),
            other => vec![format!("{other:?}")],
        };
        pairs.sort();
        format!("{key:?} {}", pairs.concat())
    });
    held.collect()
}

#[test]
fn documented_commands_are_enough() {
    for flavor in Flavor::chosen() {
        for family in families_of_users() {
            let commands = family.commands();
            let commands: Vec<_> = commands.iter().map(String::as_str).collect();
            let users = users(family.options(), || Raw::to(flavor), &commands);
            family.each(|state, call, _, what| {
                let receipts = family.begin(&users.all, state);
                let answer = family.ask(&users.user, call, state, &receipts);
                answer.unwrap_or_else(|error| panic!("{what} on {flavor}: {error}"));
                family.assert_lives(&users.all, what);
            });
            family.look_by_clock(&users.user).unwrap();
            family.reset(&users.user).unwrap();
        }
    }
}

/// Without any one of the documented commands some call fails. No call leaves a key that does not
/// expire, or something that is forgotten too early; and what writes once changes nothing.
#[test]
fn without_a_documented_command_calls_fail_and_nothing_is_half_written() {
    // Scripts are flushed, which may not be done to a server that is shared.
    let server = Server::start(Flavor::System);
    let is_denied = |error: &StoreError, what: &str| {
        assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
        assert!(error.to_string().contains("grant"), "{what}: {error}");
    };
    for family in families_of_users() {
        let commands = family.commands();
        if limits::NEED_NO_MORE.contains(&&*family.name()) {
            continue;
        }
        for missing in &commands {
            let others = commands.iter().filter(|one| *one != missing);
            let others: Vec<_> = others.map(String::as_str).collect();
            let connect = || Raw::over(server.connection(), None);
            let users = users(family.options(), connect, &others);
            let mut failed = 0;
            family.each(|state, call, _, what| {
                let receipts = family.begin(&users.all, state);
                let before = everything(&users.all);
                if missing == "+script|load" {
                    server.command(&["SCRIPT", "FLUSH"]);
                }
                let what = format!("without {missing}: {what}");
                if let Err(error) = family.ask(&users.user, call, state, &receipts) {
                    is_denied(&error, &what);
                    failed += 1;
                    if !family.writes_before(missing) {
                        assert_eq!(everything(&users.all), before, "{what}");
                    }
                }
                family.assert_lives(&users.all, &what);
            });
            // Calls at callers' instants do not read the server's clock, and nothing but resets
            // deletes keys.
            let outcome = match missing.as_str() {
                "+time" => family.look_by_clock(&users.user),
                "+unlink" => family.reset(&users.user),
                _ => {
                    assert!(failed > 0, "{missing} is not needed for {}", family.name());
                    continue;
                }
            };
            is_denied(&outcome.unwrap_err(), missing);
            assert_eq!(failed, 0, "{missing} is needed for {}", family.name());
        }
    }
}

/// A server without memory refuses exactly the calls that would write, but for those that free some;
/// and refused calls and looks would not.
#[test]
fn without_memory_nothing_is_written_and_what_writes_nothing_is_decided() {
    for flavor in Flavor::chosen() {
        let server = Server::start(flavor);
        for family in every_family() {
            let store = store_on(&server, family.options());
            let mut refused = vec![false; family.calls().len()];
            family.each(|state, index, call, what| {
                let what = format!("{what} on {flavor}");
                server.command(&["CONFIG", "SET", "maxmemory", "0"]);
                let receipts = family.begin(&store, state);
                let old = changes(&server);
                let decided = family.ask(&store, index, state, &receipts).unwrap();
                let writes = changes(&server) > old;
                let after = everything(&store);
                assert!(decided.may_change || !writes, "{what} writes: {decided:?}");
                let receipts = family.begin(&store, state);
                let before = everything(&store);
                server.command(&["CONFIG", "SET", "maxmemory", "1"]);
                let answer = family.ask(&store, index, state, &receipts);
                if writes && call.needs_memory {
                    let error = answer.expect_err(&what);
                    assert_eq!(error.kind(), ErrorKind::Full, "{what}: {error}");
                    let message = error.to_string();
                    let holds = message.contains("maxmemory") && message.contains("OOM");
                    assert!(holds, "{message}");
                    assert_eq!(everything(&store), before, "{what}");
                    refused[index] = true;
                } else {
                    assert_eq!(answer.unwrap(), decided, "{what}");
                    assert_eq!(everything(&store), after, "{what}");
                }
            });
            for (call, refused) in family.calls().iter().zip(refused) {
                let what = format!("{} of {}", call.shown, family.name());
                assert_eq!(refused, call.needs_memory, "{what}");
            }
            server.command(&["CONFIG", "SET", "maxmemory", "0"]);
            server.command(&["FLUSHALL"]);
        }
    }
}

/// A call whose reply is lost after the server forgot its scripts has been made once: the same call
/// then gets the same answer, and leaves the same, as after a call that was answered.
#[test]
fn a_call_whose_reply_is_lost_was_made_once_even_if_its_script_was_lost() {
    let server = Server::start(Flavor::System);
    for family in families_of_users() {
        let store = store_on(&server, family.options());
        let mut loaded = 0;
        family.each(|state, index, call, what| {
            let receipts = family.begin(&store, state);
            family.ask(&store, index, state, &receipts).unwrap();
            let second = family.ask(&store, index, state, &receipts).unwrap();
            let left = everything(&store);
            let receipts = family.begin(&store, state);
            server.command(&["SCRIPT", "FLUSH"]);
            store.engine().lose(1, false);
            let error = family.ask(&store, index, state, &receipts).unwrap_err();
            loaded += 1;
            let message = error.to_string();
            if call.is_read {
                // It changes nothing, so that its loss is no question.
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{what}: {message}");
                assert!(error.is_retryable());
            } else {
                assert_eq!(error.kind(), ErrorKind::Unknown, "{what}: {message}");
                assert!(message.contains(family.advice()), "{what}: {message}");
            }
            let again = family.ask(&store, index, state, &receipts).unwrap();
            assert_eq!(again, second, "{what}");
            assert_eq!(everything(&store), left, "{what}");
        });
        assert!(server.calls("script|load") >= loaded);
        store.engine().lose(1, false);
        let error = family.reset(&store).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unknown, "{error}");
        family.reset(&store).unwrap();
        assert!(everything(&store).is_empty());
    }
}

#[test]
fn keys_of_other_programs_are_an_error_and_stay() {
    for flavor in Flavor::chosen() {
        for family in every_family() {
            let options = family.options().with_prefix(&fresh("foreign")).unwrap();
            let store = WireStore::new(Raw::to(flavor), options);
            let raw = store.engine();
            let key = format!("{}:{}", store.options().prefix(), family.key());
            let key = key.as_bytes();
            for (command, hint) in family.foreign() {
                // Receipts to give back.
                let receipts = family.begin(&store, 0);
                raw.command(&[b"DEL", key]);
                let (name, words) = command.split_first().unwrap();
                let words = words.iter().map(Vec::as_slice);
                let words: Vec<_> = [name.as_slice(), key].into_iter().chain(words).collect();
                let reply = raw.command(&words);
                assert!(!matches!(reply, Reply::Error(_)), "{reply:?}");
                let before = everything(&store);
                for (index, call) in family.calls().iter().enumerate() {
                    let what = format!("{} on {command:?}, {flavor}", call.shown);
                    let answer = family.ask(&store, index, 0, &receipts);
                    let error = answer.expect_err(&what);
                    assert_eq!(error.kind(), ErrorKind::Misconfigured, "{what}: {error}");
                    let message = error.to_string();
                    assert!(message.contains(hint), "{what}: {message}");
                    assert!(!message.contains(family.key()), "{what}: {message}");
                    assert_eq!(everything(&store), before, "{what}");
                    assert_eq!(raw.pttl(key), -1, "{what}");
                }
            }
        }
    }
}
