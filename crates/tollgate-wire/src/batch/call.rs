//! `BatchedCall`: a call to be sent in a batch, and `Kind`: what calls share that differ only in keys.

use std::mem;
use std::task::Waker;
use std::time::Instant;

use smallvec::SmallVec;
use tollgate_core::inside::encoding::{Change, change};
use tollgate_core::inside::is_same;
use tollgate_core::store::{Check, Operation, Request};
use tollgate_core::{Algorithm, Limit, Timestamp};

use crate::codec::{self, Question};
use crate::hash::{self, Hashes};
use crate::keyspace::{Keys, Keyspace};
use crate::options::Options;

/// A call to be sent in a batch.
pub(crate) struct BatchedCall<'r> {
    pub(super) question: Question<'r>,
    keyspace: &'r Keyspace,
    pub(super) options: &'r Options,
    pub(super) deadline: Instant,
    /// Wakes the caller when the call has ended. The call's place in the batch takes it.
    pub(super) waker: Option<Waker>,
    /// The hashes of its limits and keys, and that of the key of its answer if it has an id.
    pub(super) hashes: Hashes,
    /// How much of a script it takes: one for each hash, and more if it may take long.
    pub(super) work: usize,
    /// The operation, if calls of it are compared by limits and costs; others are compared by arguments.
    act: Option<Act>,
    /// Whether the script may decide it as one with equal calls.
    joins: bool,
    pub(super) packed: Option<Packed>,
}

/// What is sent for a call.
pub(crate) struct Packed {
    pub(crate) keys: Keys,
    /// In the form for any number of limits.
    pub(crate) argument: Vec<u8>,
    pub(crate) has_id: bool,
}

/// An operation that is fully described by its limits and costs.
#[derive(Clone, Copy, Eq, PartialEq)]
enum Act {
    Consume,
    Peek,
    Take,
}

impl<'r> BatchedCall<'r> {
    /// Returns a call that is `packed` already if it has an id.
    pub(crate) fn new(
        question: Question<'r>,
        keyspace: &'r Keyspace,
        options: &'r Options,
        deadline: Instant,
        waker: Waker,
        packed: Option<Box<Packed>>,
    ) -> Self {
        let checks = question.request.checks();
        let act = match question.request.operation() {
            _ if packed.is_some() => None,
            Operation::Consume => Some(Act::Consume),
            Operation::Peek => Some(Act::Peek),
            Operation::TakeUpTo => Some(Act::Take),
            _ => None,
        };
        let mut hashes = hash::of(question.request);
        if let Some(packed) = &packed {
            let answers = packed.keys.iter().skip(checks.len());
            hashes.extend(answers.map(|key| hash::of_named(key)));
        }
        // A limit that counts denied calls changes with each, a block has no remaining cost, and a
        // limit in shadow does not end what the others admit.
        let is_alone = |check: &Check<'_>| {
            let algorithm = check.limit().algorithm();
            algorithm.counts_denied() || algorithm.can_block() || check.limit().is_shadow()
        };
        Self {
            joins: matches!(act, Some(Act::Consume | Act::Peek)) && !checks.iter().any(is_alone),
            work: hashes.len() + rewriting(question.request),
            question,
            keyspace,
            options,
            deadline,
            waker: Some(waker),
            hashes,
            act,
            packed: packed.map(|packed| *packed),
        }
    }

    /// Writes the keys and the argument that are sent for the call if it starts a group.
    pub(super) fn pack(&mut self) {
        if self.packed.is_none() {
            let Question {
                request, instant, ..
            } = self.question;
            self.packed = Some(Packed {
                keys: self.keyspace.of(request.checks(), instant.is_some()),
                argument: match self.act {
                    // Written once for all calls of a kind.
                    Some(_) => Vec::new(),
                    None => self.argument(),
                },
                has_id: false,
            });
        }
    }

    fn argument(&self) -> Vec<u8> {
        let slack = codec::slack_at(self.question.instant, self.options.caller_slack);
        codec::many_argument(&self.question, slack)
    }

    /// Returns whether `keys` are the keys of its checks.
    pub(super) fn has_keys(&self, keys: &[Vec<u8>]) -> bool {
        let checks = self.question.request.checks();
        let is_caller = self.question.instant.is_some();
        let mut pairs = checks.iter().zip(keys);
        checks.len() == keys.len()
            && pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))
    }
}

/// Returns for how many limits `request` counts besides its own, because it gives back what sliding logs
/// have counted: some 30 entries of a log are rewritten in the time that a limit takes at most.
fn rewriting(request: &Request<'_>) -> usize {
    const MOST: u64 = 2_000;
    const PER_LIMIT: u64 = 32;
    let checks = request.checks().iter().enumerate();
    let entries = checks.filter_map(|(index, check)| {
        let Algorithm::SlidingLog(_) = check.limit().algorithm() else {
            return None;
        };
        let gives_back = matches!(change(request, index), Some(Change::GiveBack { .. }));
        // The entries on the shorter side, each of one unit.
        gives_back.then(|| check.limit().algorithm().quota().amount() / 2)
    });
    let work = entries.sum::<u64>().min(MOST) / PER_LIMIT;
    usize::try_from(work).unwrap_or(usize::MAX)
}

/// What calls share that differ only in their keys: the argument.
pub(super) struct Kind {
    pub(super) argument: Vec<u8>,
    /// What the argument was written from, if calls are compared by that.
    terms: Option<Terms>,
    /// The number of keys of a call, including that of the answer if it has an id.
    keys: usize,
    pub(super) has_id: bool,
    /// Whether the script decides equal calls as one.
    pub(super) joins: bool,
}

struct Terms {
    act: Act,
    instant: Option<Timestamp>,
    /// Whether the caller chose the instant: a receipt is valid for one clock only.
    is_chosen: bool,
    costs: SmallVec<[(Limit, u64); 1]>,
}

impl Kind {
    /// Returns the kind of a packed call.
    pub(super) fn of(call: &mut BatchedCall<'_>) -> Self {
        let Question {
            request, instant, ..
        } = call.question;
        let terms = call.act.map(|act| Terms {
            act,
            instant,
            is_chosen: request.caller_time().is_some(),
            costs: request
                .checks()
                .iter()
                .map(|check| (check.limit().clone(), check.cost()))
                .collect(),
        });
        let packed = call.packed.as_mut();
        let (argument, has_id) = match packed {
            Some(packed) if terms.is_none() => (mem::take(&mut packed.argument), packed.has_id),
            _ => (call.argument(), false),
        };
        Self {
            argument,
            terms,
            keys: call.hashes.len(),
            has_id,
            joins: call.joins,
        }
    }

    pub(super) fn is_of(&self, call: &BatchedCall<'_>) -> bool {
        match (&self.terms, call.act, &call.packed) {
            (Some(terms), Some(act), _) => terms.act == act && terms.are_of(&call.question),
            // Arguments with other operations, limits or ids differ: they begin with the operation, and
            // each limit and an id make them longer.
            (None, None, Some(packed)) => self.argument == packed.argument,
            _ => false,
        }
    }

    /// Returns how many limits each call has.
    pub(super) fn limits(&self) -> usize {
        self.keys - usize::from(self.has_id)
    }
}

impl Terms {
    /// Returns whether a call with the same operation has the same limits and costs, at the same
    /// instant.
    fn are_of(&self, question: &Question<'_>) -> bool {
        let checks = question.request.checks();
        let is_same = |(check, (limit, cost)): (&Check<'_>, &(Limit, u64))| {
            let of = check.limit();
            check.cost() == *cost && (is_same(limit, of) || limit == of)
        };
        self.instant == question.instant
            && self.is_chosen == question.request.caller_time().is_some()
            && self.costs.len() == checks.len()
            && checks.iter().zip(&self.costs).all(is_same)
    }
}
