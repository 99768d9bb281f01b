//! `BatchedCall`: a call that is to be sent in a batch, and `Kind`: what such calls have in common.

use std::mem;
use std::task::Waker;
use std::time::Instant;

use smallvec::SmallVec;
use tollgate_core::inside::is_same;
use tollgate_core::store::{Check, Operation};
use tollgate_core::{Limit, Timestamp};

use crate::codec::{self, Question};
use crate::hash::{self, Hashes};
use crate::keyspace::{Keys, Keyspace};
use crate::options::Options;

/// A call that is to be sent in a batch.
pub(crate) struct BatchedCall<'r> {
    pub(super) question: Question<'r>,
    keyspace: &'r Keyspace,
    pub(super) options: &'r Options,
    pub(super) deadline: Instant,
    /// Woken when the call has ended. Its place in a batch takes it.
    pub(super) waker: Option<Waker>,
    /// The hashes of its limits and keys, and that of the key of its answer.
    pub(super) hashes: Hashes,
    /// What the call has in common with others, unless they are compared by their arguments.
    act: Option<Act>,
    /// Whether it can be decided together with calls that are equal.
    joins: bool,
    pub(super) packed: Option<Packed>,
}

/// What is sent for a call.
pub(crate) struct Packed {
    pub(crate) keys: Keys,
    /// In the form of a script for any number of limits.
    pub(crate) argument: Vec<u8>,
    pub(crate) has_id: bool,
}

/// An operation of which nothing but the limits and the costs must be known.
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
        // Calls that are denied are counted, and what remains of a block is no cost.
        let is_alone = |check: &Check<'_>| {
            let algorithm = check.limit().algorithm();
            algorithm.counts_denied() || algorithm.can_block()
        };
        Self {
            joins: matches!(act, Some(Act::Consume | Act::Peek)) && !checks.iter().any(is_alone),
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

    /// Makes what is sent for the call if it has a group of its own.
    pub(super) fn pack(&mut self) {
        if self.packed.is_none() {
            let Question { request, instant } = self.question;
            self.packed = Some(Packed {
                keys: self.keyspace.of(request.checks(), instant.is_some()),
                argument: match self.act {
                    // Made once for all calls of a kind.
                    Some(_) => Vec::new(),
                    None => self.argument(),
                },
                has_id: false,
            });
        }
    }

    fn argument(&self) -> Vec<u8> {
        let Question { request, instant } = self.question;
        let slack = codec::slack_at(instant, self.options.caller_slack);
        codec::many_argument(request, instant, slack)
    }

    /// Returns whether these are the keys of its checks.
    pub(super) fn has_keys(&self, keys: &[Vec<u8>]) -> bool {
        let checks = self.question.request.checks();
        let is_caller = self.question.instant.is_some();
        let mut pairs = checks.iter().zip(keys);
        checks.len() == keys.len()
            && pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))
    }
}

/// What calls have in common that differ only in their keys.
pub(super) struct Kind {
    pub(super) argument: Vec<u8>,
    /// What the argument was made from, if calls are compared by that.
    terms: Option<Terms>,
    /// How many keys, with that of the answer if calls have an id.
    keys: usize,
    pub(super) has_id: bool,
    /// Whether equal calls are decided together.
    pub(super) joins: bool,
}

struct Terms {
    act: Act,
    instant: Option<Timestamp>,
    /// Whether the caller chose the instant, which is part of what a receipt is for.
    is_chosen: bool,
    costs: SmallVec<[(Limit, u64); 1]>,
}

impl Kind {
    /// Returns the kind of a call that is packed.
    pub(super) fn of(call: &mut BatchedCall<'_>) -> Self {
        let Question { request, instant } = call.question;
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
            // It begins with the operation, and is longer for each limit and for an id.
            (None, None, Some(packed)) => self.argument == packed.argument,
            _ => false,
        }
    }

    /// Returns how many limits the calls are about.
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
