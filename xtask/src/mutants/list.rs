//! The mutants: where each is, what is wrong, and how it is done.

use super::Mutant;

macro_rules! mutants {
    ($($file:literal { $($wrong:literal: $before:literal => $after:literal,)* })*) => {
        &[$($(Mutant {
            file: $file,
            wrong: $wrong,
            before: $before,
            after: $after,
        },)*)*]
    };
}

pub(super) const MUTANTS: &[Mutant] = mutants! {
    "crates/tollgate-core/src/algorithm/fixed_window/script.lua" {
        "on a server, one unit too many is admitted to a window":
            "used <= amount_per_window - cost" => "used <= amount_per_window - cost + 1",
        "on a server, a window still counts at its end":
            "now - start < window then\n  used" => "now - start <= window then\n  used",
    }
    "crates/tollgate-core/src/algorithm/gcra/script.lua" {
        "on a server, one unit of debt too many fits":
            "debt <= full - cost * unit" => "debt <= full - cost * unit + unit",
        "on a server, a call that just fits is refused":
            "if debt < 0 then debt = 0 end" => "if debt < 1 then debt = 1 end",
        "on a server, a debt is rounded down under a new quota":
            "if rest > 0 then quotient = quotient + 1 end" => "",
    }
    "crates/tollgate-core/src/algorithm/sliding_buckets/script.lua" {
        "on a server, one unit too many is admitted to the buckets":
            "used <= amount_per_window - cost" => "used <= amount_per_window - cost + 1",
        "on a server, the ring holds k buckets, not k + 1":
            "local ring = buckets + 1" => "local ring = buckets",
    }
    "crates/tollgate-core/src/algorithm/sliding_counter/script.lua" {
        "on a server, one unit too many is admitted to the counters":
            "current + weight <= amount_per_window - cost" => "current + weight <= amount_per_window - cost + 1",
        "on a server, the weight is rounded down":
            "ceil(previous * (steps" => "floor(previous * (steps",
    }
    "crates/tollgate-core/src/algorithm/sliding_log/script.lua" {
        "on a server, one unit too many is admitted to the log":
            "used <= amount_per_window - cost" => "used <= amount_per_window - cost + 1",
        "on a server, an entry counts when it leaves the window":
            "local edge, gone = at - window, 0" => "local edge, gone = at - window - 1, 0",
    }
    "crates/tollgate-core/src/algorithm/fixed_window/mod.rs" {
        "a window still counts at its end":
            "now >= end ||" => "now > end ||",
        "a window is one microsecond longer":
            "state.start + self.quota.window_us();" => "state.start + self.quota.window_us() + 1;",
        "a call that just fits is refused":
            "if used + cost <= self.quota.amount()" => "if used + cost < self.quota.amount()",
        "an anchored window forgets the place of its first call":
            "let place = u64::from(self.anchored && state.at_start == 0);" => "let place = 0;",
        "a call frees the place that was kept":
            "if now == state.start && !keeps_place {" => "if now == state.start {",
        "a clock that steps back opens an earlier window":
            "let now = now.max(state.start);" => "",
    }
    "crates/tollgate-core/src/algorithm/gcra/mod.rs" {
        "a call that just fits is refused when decided alone":
            "let allowed = debt <= room;" => "let allowed = debt < room;",
        "a call that just fits is refused when decided with others":
            "if debt <= room {" => "if debt < room {",
        "one unit leaks per microsecond, whatever the rate":
            "debt.saturating_sub((at - state.at).saturating_mul(self.leak))"
            => "debt.saturating_sub(at - state.at)",
        "retry and reset are rounded down":
            "units.div_ceil(self.leak)" => "units / self.leak",
        "what remains is rounded up":
            "units / self.unit\n" => "units.div_ceil(self.unit)\n",
        "a debt is rounded down under a new quota":
            "product.div_ceil(u128::from(state.unit.max(1)))"
            => "product / u128::from(state.unit.max(1))",
        "a refund gives back what has leaked":
            "now.saturating_sub(at).saturating_mul(self.leak);" => "0;",
        "a wait leaves out how far the clock stepped back":
            "Wait::from_micros(self.drain_us(debt - room) + (at - now))"
            => "Wait::from_micros(self.drain_us(debt - room))",
    }
    "crates/tollgate-core/src/algorithm/sliding_buckets/mod.rs" {
        "the ring holds k buckets, not k + 1":
            "buckets,\n            bucket_us:" => "buckets: buckets - 1,\n            bucket_us:",
        "a bucket is rounded down":
            "quota.window_us().div_ceil(buckets)" => "quota.window_us() / buckets",
        "a wait ends one bucket too early":
            "(j + self.buckets + 1) * self.bucket_us" => "(j + self.buckets) * self.bucket_us",
        "a call that just fits waits":
            "if used + cost <= amount" => "if used + cost < amount",
        "the oldest bucket takes no refund":
            "j + self.buckets < self.bucket(state, now)"
            => "j + self.buckets <= self.bucket(state, now)",
    }
    "crates/tollgate-core/src/algorithm/sliding_counter/mod.rs" {
        "what the last window weighs is rounded down":
            "(view.previous * left).div_ceil(self.steps)" => "view.previous * left / self.steps",
        "a retry is rounded down":
            "self.steps - room * self.steps / previous;"
            => "self.steps - (room * self.steps).div_ceil(previous);",
        "a window goes on at its end":
            "if since < window_us" => "if since <= window_us",
        "a window before the last still weighs":
            "previous: if since - into == window_us" => "previous: if since - into >= window_us",
        "coarse steps leave out the last, short one":
            "steps: window_us.div_ceil(step)" => "steps: window_us / step",
    }
    "crates/tollgate-core/src/algorithm/sliding_log/mod.rs" {
        "the first entry still counts when it has left":
            "Some(first) if first.at <= expired" => "Some(first) if first.at < expired",
        "the last entry to leave still counts":
            "partition_point(|entry| entry.at <= expired)"
            => "partition_point(|entry| entry.at < expired).max(1)",
        "the window is one microsecond shorter":
            "at.checked_sub(self.quota.window_us())" => "at.checked_sub(self.quota.window_us() - 1)",
        "a wait is for one entry too many":
            "partition_point(|entry| entry.total < needed)"
            => "partition_point(|entry| entry.total <= needed).min(state.entries.len() - 1)",
    }
    "crates/tollgate-core/src/algorithm/mod.rs" {
        "a cost of the whole capacity never fits":
            "if cost > machine.capacity()" => "if cost >= machine.capacity()",
        "an allowed call is not recorded when decided alone":
            "if allowed {\n            at = self.commit(state, now, cost);" => "if allowed {",
        "denied calls are not counted when decided alone":
            "} else if self.counts_denied() {" => "} else if false {",
        "a denied call is charged":
            "charged: if outcome.allowed { cost } else { 0 }" => "charged: cost",
    }
    "crates/tollgate-core/src/evaluation.rs" {
        "one limit that allows is enough":
            "allowed: waits.iter().all(" => "allowed: waits.iter().any(",
        "an allowed call is not recorded when decided with others":
            "verdict.at = algorithm.commit(state, now, verdict.charged);" => "",
        "a denied call is recorded":
            "Operation::TakeUpTo if self.allowed =>" => "Operation::TakeUpTo =>",
        "a limit that allows is charged though another denies":
            "} else if self.allowed {\n" => "} else if verdict.allowed {\n",
        "a peek makes a state":
            "Operation::Peek => false," => "Operation::Peek => self.allowed,",
        "a peek that is denied is recorded":
            "Operation::Peek => false,\n" => "Operation::Peek => !self.allowed,\n",
        "a refund makes a state":
            "amount() > 0 && self.returns_to(index)" => "amount() > 0",
        "what is taken is the largest cost, not the least":
            "self.checks().iter().map(Check::cost).min()"
            => "self.checks().iter().map(Check::cost).max()",
    }
    "crates/tollgate-core/src/decision.rs" {
        "the wait is for the fastest limit":
            ".map(Verdict::retry_after)\n            .max()" => ".map(Verdict::retry_after)\n            .min()",
        "the most that any limit has left remains":
            ".map(Verdict::remaining)\n            .min()" => ".map(Verdict::remaining)\n            .max()",
        "the last of equals binds":
            "verdict.remaining < held.remaining" => "verdict.remaining <= held.remaining",
    }
    "crates/tollgate-core/src/request.rs" {
        "one limit and key may be named twice":
            "if checks[..index].iter().any(|c| c.shares_state_with(check))" => "if index > checks.len()",
        "one limit may not be named for two keys":
            "other.limit.identity() && self.key" => "other.limit.identity() || self.key",
        "a request of 32 checks is refused":
            "checks.len() > MAX_CHECKS" => "checks.len() >= MAX_CHECKS",
    }
    "crates/tollgate-core/src/time.rs" {
        "a wait in whole seconds is rounded down":
            "micros.div_ceil(1_000_000)" => "micros / 1_000_000",
    }
    "crates/tollgate-memory/src/counter.rs" {
        "a comparison of the clocks may be preempted":
            "if taken <= LONGEST_COMPARISON {" => "if taken < u64::MAX {",
        "a rate is used that was measured once":
            "differs_by < self.rate >> AGREEMENT_BITS" => "differs_by < u64::MAX",
        "a stretch may begin before the end of the last one":
            "self.publish(last.end(), next);" => "self.publish(0, next);",
        "a stretch of the counter never ends":
            "span: SPAN," => "span: SPAN << 20,",
    }
    "crates/tollgate-memory/src/probe.rs" {
        "a short key's length is forgotten":
            "Self {\n                length,\n" => "Self {\n                length: length.min(0),\n",
        "the rest of a long key is forgotten":
            "hasher.write(rest);" => "",
        "where a key's partition ends is forgotten":
            "hasher.write_usize(partition.len());" => "",
        "a long key is held as a short one of its hash":
            "length: HASHED," => "length: 16,",
        "a key with a rest is held as one without":
            "partition.len() <= SHORT && rest.is_empty()" => "partition.len() <= SHORT",
        "every store has the same secret":
            "let secret = |number: u64| random.hash_one(number);"
            => "let secret = |number: u64| number + u64::from(random.hash_one(number) == 0);",
    }
    "crates/tollgate-memory/src/shard.rs" {
        "limits share the state of a key":
            "self.key == probe.key && (self.limit.is_same(limit) || is_equivalent(&self.limit, limit))"
            => "self.key == probe.key",
        "a state that is in use is dropped":
            "entry.state.is_fresh(&entry.limit, now);"
            => "entry.state.is_fresh(&entry.limit, now) || true;",
        "a key stays judged by the limit it was first called with, among others":
            "entry.adopt(probe.check.limit());\n        entry" => "entry",
    }
    "crates/tollgate-memory/src/store.rs" {
        "a call for a new key reads the clock before it holds the lock":
            "            let mut shard = self.lock(self.shard_of(probe, timeline));\n            // Read with the lock held: whoever dropped this key's state did so at an earlier\n            // instant. A reading from before might fall into the window that was just forgotten.\n            let now = self.now(request);"
            => "            let now = self.now(request);\n            let mut shard = self.lock(self.shard_of(probe, timeline));",
        "a new state is not kept":
            "shard.insert(probe, state, &self.hasher);" => "",
        "a new key is not counted":
            "if self.reserve(1)" => "if true",
        "callers' states are those of the store's clock":
            "Timeline::Caller => shard + self.shard_mask + 1," => "Timeline::Caller => shard,",
        "callers' states are dropped by the store's clock":
            "(true, Timeline::Store) => continue," => "(true, Timeline::Store) => now,",
        "the store's states are dropped by a caller's clock":
            "(false, Timeline::Caller) => self.clock.now()," => "(false, Timeline::Caller) => now,",
        "callers' states are swept as new keys come":
            "if timeline == Timeline::Store {" => "if timeline == timeline {",
        "a key stays judged by the limit it was first called with":
            "entry.adopt(check.limit());" => "",
        "a reset leaves what callers' clocks counted":
            "for timeline in [Timeline::Caller, Timeline::Store]" => "for timeline in [Timeline::Store]",
    }
    "crates/tollgate-memory/src/composite.rs" {
        "several new keys are counted as one":
            "new_keys == 0 || self.reserve(new_keys)" => "new_keys == 0 || self.reserve(1)",
    }
};
