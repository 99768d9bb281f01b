//! The mutants that do not change the program's behaviour, so that no test can detect them.

use std::collections::HashMap;
use std::error::Error;

use super::mutant::Mutant;

/// A mutant that no test can detect, and why.
#[derive(Clone, Copy, Debug)]
struct Equivalent {
    file: &'static str,
    place: &'static str,
    before: &'static str,
    after: &'static str,
    /// The index, from 0, among mutants that are equal in all other fields.
    nth: usize,
    reason: &'static str,
}

macro_rules! equivalent {
    ($($file:literal { $($place:literal { $($before:literal => $after:literal $(# $nth:literal)? because $reason:literal;)* })* })*) => {
        &[$($($(Equivalent {
            file: $file,
            place: $place,
            before: $before,
            after: $after,
            nth: 0 $(+ $nth - 1)?,
            reason: $reason,
        },)*)*)*]
    };
}

const EQUIVALENT: &[Equivalent] = equivalent! {
    "crates/tollgate-core/src/algorithm/block/mod.rs" {
        "Block::blocked" {
            "last.saturating_mul(2)" => "last.wrapping_mul(2)"
                because "no block lasts so long that twice its length cannot be counted";
        }
    }
    "crates/tollgate-core/src/algorithm/block/script.lua" {
        "remaining" {
            "(ends <= now and 9007199254740991 or 0)" => "(ends <= now and 9007199254740992 or 0)"
                because "no limit that counts has more than that left";
        }
        "block" {
            "if length > 0 then remembered = ends + memory end" => "if length >= 0 then remembered = ends + memory end"
                because "a length of zero is remembered as it is forgotten: as zero";
            "if length > 0 then remembered = ends + memory end" => "if true then remembered = ends + memory end"
                because "a length of zero is remembered as it is forgotten: as zero";
            "local wanted = 0" => "local wanted = 1"
                because "it is left so only for a key that is blocked until later";
        }
    }
    "crates/tollgate-core/src/algorithm/machine.rs" {
        "Machine::blocked" {
            "fn blocked" => "return Some(Default::default())"
                because "never called: a block of a limit that cannot block is refused";
        }
    }
    "crates/tollgate-core/src/algorithm/mod.rs" {
        "blocked" {
            "1" => "0"
                because "how long a block lasts does not depend on the cost of a call";
            "1" => "2"
                because "how long a block lasts does not depend on the cost of a call";
            "1" => "0" # 2
                because "how long a block lasts does not depend on the cost of a call";
            "1" => "2" # 2
                because "how long a block lasts does not depend on the cost of a call";
        }
    }
    "crates/tollgate-core/src/algorithm/gcra/mod.rs" {
        "Gcra::leaked" {
            "state.unit == self.unit" => "false"
                because "a debt in the same unit is rescaled to itself, which only takes longer";
        }
        "Gcra::tokens" {
            "units < self.unit" => "false"
                because "a shortcut: the division comes to zero, too";
            "self.unit == 1" => "false"
                because "a shortcut: dividing by one changes nothing";
            "1" => "0"
                because "a shortcut that is not taken: dividing by one changes nothing";
        }
        "Gcra::drain_us" {
            "self.leak == 1" => "false"
                because "a shortcut: dividing by one changes nothing";
            "1" => "0"
                because "a shortcut that is not taken: dividing by one changes nothing";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_buckets/mod.rs" {
        "SlidingBuckets::used" {
            "passed == 0" => "false"
                because "a shortcut: the sum over no buckets is zero";
        }
        "SlidingBuckets::wait" {
            "self.leaves_at(bucket) - now" => "self.leaves_at(bucket) + now" # 1
                because "never reached: the live buckets hold what is used";
            "self.leaves_at(bucket) - now" => "self.leaves_at(bucket)" # 1
                because "never reached: the live buckets hold what is used";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_counter/mod.rs" {
        "SlidingCounter::weight" {
            "view.previous == 0" => "false"
                because "a shortcut: nothing weighs nothing";
        }
        "SlidingCounter::steps_into" {
            "self.step == 1" => "false"
                because "a shortcut: dividing by one changes nothing";
            "1" => "0"
                because "a shortcut that is not taken: dividing by one changes nothing";
        }
    }
    "crates/tollgate-core/src/algorithm/fixed_window/script.lua" {
        "read" {
            "local start, kept, at_start = 0, 0, 0" => "local start, kept, at_start = 0, 0, 1"
                because "what was counted at the start is not read where nothing was counted";
        }
        "refund" {
            "local reset = 0" => "local reset = 1"
                because "a key lives for a millisecond at least, which one microsecond is rounded up to";
        }
    }
    "crates/tollgate-core/src/algorithm/gcra/script.lua" {
        "read" {
            "marked = #raw > 24" => "marked = #raw > 25"
                because "a state has 24 bytes, or 32 with a mark";
            "if counted_in ~= unit then" => "if true then"
                because "a debt in the same unit is rescaled to itself, which only takes longer";
            "if rest >= counted_in - rest then" => "if rest > counted_in - rest then"
                because "a rest as large as the unit it was counted in is carried on instead of a quotient that is one more, and rounded up to the same in the end";
            "if rest >= counted_in - part then" => "if rest > counted_in - part then"
                because "a rest as large as the unit it was counted in is carried on instead of a quotient that is one more, and rounded up to the same in the end";
            "if at < now then" => "if at <= now then"
                because "nothing leaks in no time";
        }
        "delay" {
            "own = 1 / 0" => "own = 2 / 0"
                because "both are infinite";
        }
        "refund" {
            "if at >= taken and after <= 9007199254740991 and debt == after - leaked then" => "if at >= taken and after <= 9007199254740992 and debt == after - leaked then"
                because "a debt above 2^53 - 1 is cut off, so it is not what such a call left";
            "local reset = 0" => "local reset = 1"
                because "a key lives for a millisecond at least, which one microsecond is rounded up to";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_buckets/script.lua" {
        "commit" {
            "if straight > 0 then" => "if true then"
                because "to replace no bytes changes nothing";
            "if straight > 0 then" => "if straight >= 0 then"
                because "to replace no bytes changes nothing";
            "counts = sub(counts, 1, place) .. pack('<d', count + amount) .. sub(counts, place + 9)" => "counts = sub(counts, 0, place) .. pack('<d', count + amount) .. sub(counts, place + 9)"
                because "what begins before the first byte begins with it";
            "counts = sub(counts, 1, 8 * first) .. rep('\\0', 8 * straight) .. sub(counts, 8 * (first + straight) + 1)" => "counts = sub(counts, 0, 8 * first) .. rep('\\0', 8 * straight) .. sub(counts, 8 * (first + straight) + 1)"
                because "what begins before the first byte begins with it";
            "if passed > straight then" => "if passed >= straight then"
                because "to replace no bytes changes nothing";
            "if passed > straight then" => "if true then"
                because "to replace no bytes changes nothing";
            "if amount == 0 then" => "if true then"
                because "a shortcut: a bucket in which something was just counted is the newest that counts";
            "while newest > bucket - buckets and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do" => "while newest >= bucket - buckets and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do"
                because "nothing more can be counted only where some bucket counts, so the loop ends there";
        }
        "refund" {
            "while newest > bucket - ring and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do" => "while newest >= bucket - ring and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do"
                because "one bucket further back does not count any more, either";
            "local reset = 0" => "local reset = 1"
                because "a key lives for a millisecond at least, which one microsecond is rounded up to";
            "if newest > bucket - ring then reset = (newest * width - now) + ring * width end" => "if newest >= bucket - ring then reset = (newest * width - now) + ring * width end"
                because "the end of a bucket that counts no more has passed, and a key lives for a millisecond at least";
            "if newest > bucket - ring then reset = (newest * width - now) + ring * width end" => "if true then reset = (newest * width - now) + ring * width end"
                because "the end of a bucket that counts no more has passed, and a key lives for a millisecond at least";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_counter/script.lua" {
        "read" {
            "local start, current, previous, into = 0, 0, 0, 0" => "local start, current, previous, into = 1, 0, 0, 0"
                because "the start of nothing is only compared with the time, which is later";
            "local start, current, previous, into = 0, 0, 0, 0" => "local start, current, previous, into = 0, 0, 0, 1"
                because "it is set before it is read";
            "if current == 0 and previous == 0 then" => "if false then"
                because "starts in one key are multiples of one window, so both ways come to the same";
            "if previous > 0 then weight = ceil(previous * (steps - floor(into / step)) / steps) end" => "if previous >= 0 then weight = ceil(previous * (steps - floor(into / step)) / steps) end"
                because "nothing weighs nothing";
            "if previous > 0 then weight = ceil(previous * (steps - floor(into / step)) / steps) end" => "if true then weight = ceil(previous * (steps - floor(into / step)) / steps) end"
                because "nothing weighs nothing";
        }
        "refund" {
            "local reset = 0" => "local reset = 1"
                because "a key lives for a millisecond at least, which one microsecond is rounded up to";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_log/twin.rs" {
        "SlidingLog::decode" {
            "(used + call.cost).saturating_sub(amount)" => "(used + call.cost).wrapping_sub(amount)"
                because "what is below zero is no unit of the log either way";
            "(used + 2 * call.cost).saturating_sub(amount)" => "(used + 2 * call.cost).wrapping_sub(amount)"
                because "what is below zero is no unit of the log either way";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_log/script.lua" {
        "search" {
            "local high, step, instant, sum = call('LLEN', key) - 1, 1, last, total" => "local high, step, instant, sum = call('LLEN', key) - 0, 1, last, total"
                because "the newest always holds, so the place after it is never where a search ends";
            "local high, step, instant, sum = call('LLEN', key) - 1, 1, last, total" => "local high, step, instant, sum = call('LLEN', key) - 1, 2, last, total"
                because "how far the first step goes is tuning: a search reads few entries either way";
            "local probe = min(low + step, floor((low + high) / 2))" => "local probe = min(low + step, ceil((low + high) / 2))"
                because "of two entries in the middle, either may be read";
            "low, total_low, step = probe, reached, 2 * step" => "low, total_low, step = probe, reached, 3 * step"
                because "how fast steps grow is tuning: a search reads few entries either way";
        }
        "read" {
            "if front[3] then last, total = unpack('<dI4', call('LINDEX', key, '-1')) end" => "if front[2] then last, total = unpack('<dI4', call('LINDEX', key, '-1')) end"
                because "a shortcut: the only entry is the newest, too";
            "if last > latest then latest = last end" => "if last >= latest then latest = last end"
                because "it is set to what it is";
            "if latest > now then at = latest end" => "if latest >= now then at = latest end"
                because "it is set to what it is";
            "oldest, total_oldest = unpack('<dI4', front[3])" => "oldest, total_oldest = unpack('<dI4', front[2])"
                because "a shortcut that is not taken: the search finds the first entry that counts, too";
            "oldest, total_oldest = unpack('<dI4', front[3])" => ""
                because "a shortcut that is not taken: the search finds the first entry that counts, too";
            "if oldest <= edge then" => "if true then"
                because "a shortcut: the search finds the first entry that counts, too";
        }
        "answer" {
            "if used > 0 and (not fits or counted == 1) then" => "if used > 1 and (not fits or counted == 1) then"
                because "a call that waits for the only unit waits for the newest entry, which is in the answer";
            "if (total_oldest - before) % 4294967296 >= units then return oldest end" => "if (total_oldest - before) % 4294967295 >= units then return oldest end"
                because "a shortcut that is not taken: the search finds the oldest entry, too";
            "if (total_oldest - before) % 4294967296 >= units then return oldest end" => "if (total_oldest - before) % 4294967296 > units then return oldest end"
                because "a shortcut that is not taken: the search finds the oldest entry, too";
            "if (total_oldest - before) % 4294967296 >= units then return oldest end" => "if false then return oldest end"
                because "a shortcut: the search finds the oldest entry, too";
        }
        "commit" {
            "gone, ends = -1, format('%d', 1 + slack)" => "gone, ends = -1, format('%d', 0 + slack)"
                because "a log of nothing but an instant is gone a millisecond earlier, by a server's clock that has reached it";
            "if units > amount_per_window then units = amount_per_window end" => "if units >= amount_per_window then units = amount_per_window end"
                because "it is set to what it is";
            "elseif excess > 0 then" => "elseif excess >= 0 then"
                because "a shortcut: where nothing is to be forgotten, the search ends where it begins";
            "elseif excess > 0 then" => "elseif true then"
                because "a shortcut: where nothing is to be forgotten, the search ends where it begins";
            "if gone ~= 0 then call('LTRIM', key, format('%d', gone), '-1') end" => "if true then call('LTRIM', key, format('%d', gone), '-1') end"
                because "to trim nothing changes nothing";
        }
        "refund" {
            "call('LPUSH', key, front[1])" => "call('LPUSH', key, front[2])"
                because "what is pushed is removed at once";
        }
    }
    "crates/tollgate-wire/src/lease.lua" {
        "" {
            "local count, first, last = (#raw - 24) / 34, 1 / 0, 0" => "local count, first, last = (#raw - 24) / 34, 2 / 0, 0"
                because "without leases, it is only compared before a count that finds none";
            "local count, first, last = (#raw - 24) / 34, 1 / 0, 0" => "local count, first, last = (#raw - 24) / 34, 0 / 0, 0"
                because "without leases, it is only compared before a count that finds none";
            "local count, first, last = (#raw - 24) / 34, 1 / 0, 0" => "local count, first, last = (#raw - 24) / 34, 1 + 0, 0"
                because "without leases, it is only compared before a count that finds none";
            "local count, first, last = (#raw - 24) / 34, 1 / 0, 0" => "local count, first, last = (#raw - 24) / 34, 1 / 1, 0"
                because "without leases, it is only compared before a count that finds none";
            "local count, first, last = (#raw - 24) / 34, 1 / 0, 0" => "local count, first, last = (#raw - 24) / 34, 1 / 0, 1"
                because "without leases, it is only compared before a count that finds none";
            "if count ~= floor(count) or not (total >= count and total <= 65535 * count) then" => "if count ~= ceil(count) or not (total >= count and total <= 65535 * count) then"
                because "only a whole number is what it is rounded to, up or down";
            "if count ~= floor(count) or not (total >= count and total <= 65535 * count) then" => "if count ~= floor(count) or not (total >= count and total <= 65534 * count) then"
                because "no lease weighs more than 1,000";
            "local place, ends, held_token, held_weight = 24" => "local place, ends, held_token, held_weight = 23"
                because "what is found there is not at the start of a record";
            "if total == count then" => "if false then"
                because "a shortcut: leases of weight one add up to their number";
            "if first <= at then" => "if true then"
                because "a shortcut: the count finds that none has ended";
            "local record, to = '', #raw + 1" => "local record, to = '', #raw + 2"
                because "nothing follows the last byte";
            "clock, ends = at, max(ends or 0, min(at + ttl, 9007199254740991))" => "clock, ends = at, max(ends or 1, min(at + ttl, 9007199254740991))"
                because "a lease ends after the epoch";
            "if ends < last then to = 25 + 34 * ended(ends) end" => "if ends <= last then to = 25 + 34 * ended(ends) end"
                because "a shortcut: the count finds the end, too";
            "if ends < last then to = 25 + 34 * ended(ends) end" => "if true then to = 25 + 34 * ended(ends) end"
                because "a shortcut: the count finds the end, too";
            "local newest = #raw > 24 and unpack('<d', raw, #raw - 17) or 0" => "local newest = #raw > 25 and unpack('<d', raw, #raw - 17) or 0"
                because "what is longer than the header is longer by a record";
            "local newest = #raw > 24 and unpack('<d', raw, #raw - 17) or 0" => "local newest = #raw > 24 and unpack('<d', raw, #raw - 17) or 1"
                because "the next token is greater, too";
        }
    }
    "crates/tollgate-wire/src/schedule.lua" {
        "" {
            "for q = 1, quotas do cursors[q] = {} end" => "for q = 0, quotas do cursors[q] = {} end"
                because "what is before the first quota's is not read";
            "local NEVER = 9007199254740992" => "local NEVER = 9007199254740993"
                because "doubles hold no such number, and the next is the same";
            "local is_set, clock, width, weighted = false, 0, 0, 0" => "local is_set, clock, width, weighted = false, 0, 1, 0"
                because "no id is shorter than a byte";
            "if not find(raw.err, 'WRONGTYPE', 1, true) then return raw end" => "if not find(raw.err, 'WRONGTYPE', 0, true) then return raw end"
                because "a search from before the first byte begins with it";
            "if not find(raw.err, 'WRONGTYPE', 1, true) then return raw end" => "if not find(raw.err, 'WRONGTYPE', 1, false) then return raw end"
                because "the word stands for itself as a pattern, too";
            "held = call('ZCARD', key) - lowest" => "held = call('ZCARD', key) + lowest"
                because "a search then reads on where there is nothing";
            "local periods_at, reach = nil, 0" => "local periods_at, reach = nil, 1"
                because "to read more events than are needed changes no answer";
            "for i = 1, n do heavy[i] = heavy[i] and -heavy[i] or 1 end" => "for i = 0, n do heavy[i] = heavy[i] and -heavy[i] or 1 end"
                because "what is before the first weight is not read";
            "if periods_at then" => "if true then"
                because "without a calendar, these functions are not called";
            "for i = first, after - 1, 64 do" => "for i = first, after + 1, 64 do"
                because "the last part may be empty";
            "for i = first, after - 1, 64 do" => "for i = first, after - 0, 64 do"
                because "the last part may be empty";
            "local real = sign * time + 0" => "local real = sign * time - 0"
                because "a request that reaches the epoch brings its day, so minus zero is only compared";
            "if cursor.start ~= start then cursor.start, cursor.sum = start, weight_within(start, stop) end" => "if true then cursor.start, cursor.sum = start, weight_within(start, stop) end"
                because "a shortcut: the same period has the same sum";
            "index = first_after(from + reach - 1)" => "index = first_after(from + reach + 1)"
                because "to read more events than are needed changes no answer";
            "index = first_after(from + reach - 1)" => "index = first_after(from + reach - 0)"
                because "to read more events than are needed changes no answer";
            "while left > unread and sign * added_times[next_added] <= time do" => "while left > unread and sign * added_times[next_added] < time do"
                because "events of one time count together, in whatever order";
            "local many = min(unread, 64)" => "local many = min(unread, 65)"
                because "how many events are read at once is tuning";
            "local many = min(unread, 64)" => "local many = min(unread, 63)"
                because "how many events are read at once is tuning";
            "while middle <= loaded and event_times[middle] <= from do middle = middle + 1 end" => "while middle < loaded and event_times[middle] <= from do middle = middle + 1 end"
                because "where the first look begins is tuning: it goes back as far as a window reaches";
            "while middle <= loaded and event_times[middle] <= from do middle = middle + 1 end" => "while middle <= loaded and event_times[middle] < from do middle = middle + 1 end"
                because "where the first look begins is tuning: it goes back as far as a window reaches";
            "while middle <= loaded and event_times[middle] <= from do middle = middle + 1 end" => "while middle <= loaded and event_times[middle] > from do middle = middle + 1 end"
                because "where the first look begins is tuning: it goes back as far as a window reaches";
            "while middle <= loaded and event_times[middle] <= from do middle = middle + 1 end" => "while false do middle = middle + 1 end"
                because "where the first look begins is tuning: it goes back as far as a window reaches";
            "if alone then" => "if true then"
                because "the later rounds then begin where the first one did, and take longer";
            "while first > 1 and event_times[first - 1] > from - length do first = first - 1 end" => "while first > 1 and event_times[first - 1] >= from - length do first = first - 1 end"
                because "an event that leaves the window at that time does not count in it";
            "local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), -1" => "local last, newest = call('ZRANGE', key, -3, -1, 'WITHSCORES'), -1"
                because "an earlier event is not the newest";
            "local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), -1" => "local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), -2"
                because "no event is before the epoch either way";
            "while first > loaded and left > 0 do load() end" => "while first >= loaded and left > 0 do load() end"
                because "to read events earlier than they are needed changes no answer";
            "if leaves > free then" => "if leaves >= free then"
                because "the time is then moved to where it is";
            "if free > last then free = last + 1 end" => "if free > last then free = last + 2 end"
                because "beyond the last time, it does not matter how far";
            "return max(ceil((newest + retention + tolerance - now) / 1000) + slack, 0) + 1" => "return max(ceil((newest + retention + tolerance - now) / 1000) + slack, 1) + 1"
                because "events that are over do not count, however long their key lives";
            "elseif length <= width then" => "elseif true then"
                because "a shortcut: an id that is longer than all others is not found";
            "if i == floor(i) then found = i end" => "if i == ceil(i) then found = i end"
                because "only a whole number is what it is rounded to, up or down";
            "if weighted == 1 then" => "if true then" # 2
                because "a shortcut: without weights, parts of nothing are put together";
            "for i = 1, held do" => "for i = 0, held do"
                because "what is put together begins with the first";
            "call('GETEX', key, 'PXAT', 1)" => "call('GETEX', key, 'PXAT', 2)"
                because "both are past";
            "and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, true)" => "and find(pcall('ZADD', key, 1, 'e').err or '', 'WRONGTYPE', 1, true)"
                because "it writes nothing, because the key is a string";
            "and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, true)" => "and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 0, true)"
                because "a search from before the first byte begins with it";
            "and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, true)" => "and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, false)"
                because "the word stands for itself as a pattern, too";
            "if weighted == 1 then entries[3], entries[4] = -1, 'w' end" => "if weighted == 1 then entries[3], entries[4] = -2, 'w' end"
                because "only whether there is a score is read";
            "local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), added_times[added]" => "local last, newest = call('ZRANGE', key, -3, -1, 'WITHSCORES'), added_times[added]"
                because "an earlier event is not the newest";
            "for i = 4, #entries, 2 do call('ZREM', key, entries[i]) end" => "for i = 4, #entries, 1 do call('ZREM', key, entries[i]) end"
                because "no member begins with a digit, so to remove those named like scores removes nothing";
        }
    }
    "crates/tollgate-core/src/call/mod.rs" {
        "u64::decide_in_place" {
            "Asked { operation: Operation::Consume, key, cost, at: None, id: None, } =>" => "left out"
                because "a shortcut: the general case decides the same";
        }
        "decide_now" {
            "(limits, Operation::Consume, None, None) =>" => "left out"
                because "a shortcut: the general case decides the same";
            "(limits @ [limit], Operation::Consume, None, None) =>" => "left out"
                because "a shortcut: the general case decides the same";
        }
    }
    "crates/tollgate-core/src/call/settle.rs" {
        "Settle::request" {
            "0" => "1"
                because "the costs of a refund are those of its receipt";
        }
    }
    "crates/tollgate-core/src/call/change.rs" {
        "BlockCall::request" {
            "1" => "2"
                because "a block has no cost";
            "1" => "0"
                because "a block has no cost";
        }
        "Reset::run" {
            "0" => "1"
                because "a reset has no cost";
        }
        "Reset::into_future" {
            "self.limiter.companion().get().is_none()" => "false"
                because "a shortcut: where there is no companion, nobody hears of it";
            "0" => "1"
                because "a reset has no cost";
        }
    }
    "crates/tollgate-core/src/one_or_many.rs" {
        "OneOrMany::from_fn" {
            "1 =>" => "left out"
                because "a shortcut: the values are then in a vector";
            "2 =>" => "left out"
                because "a shortcut: the values are then in a vector";
            "3 =>" => "left out"
                because "a shortcut: the values are then in a vector";
        }
    }
    "crates/tollgate-core/src/decision.rs" {
        "Verdicts::resize" {
            "self.verdicts.len() != length || self.reserved.is_some()" => "true"
                because "a shortcut: verdicts of this number are then made again";
        }
        "Verdicts::blank" {
            "false" => "true"
                because "it is overwritten before it is read";
            "0" => "1" # 1
                because "it is overwritten before it is read";
            "0" => "1" # 2
                because "it is overwritten before it is read";
            "0" => "1" # 3
                because "only what is denied keeps it, and has no receipt";
        }
    }
    "crates/tollgate-core/src/evaluation.rs" {
        "Request::decide" {
            "check.cost() > 0" => "false"
                because "a shortcut: the general case decides the same";
            "(_, Operation::Consume) =>" => "left out"
                because "a shortcut: the general case decides the same";
            "consume_all(checks, fingerprint, states, now, &mut verdicts)" => "false"
                because "a shortcut: the general case decides the same";
            "(_, Operation::Peek) =>" => "left out"
                because "a shortcut: the general case decides the same";
            "0" => "1"
                because "a shortcut that is not taken: the general case decides the same";
        }
        "consume_all" {
            "fn consume_all" => "return false"
                because "a shortcut: the general case decides the same";
            "!all_admit(checks, states, now)" => "true"
                because "a shortcut: the general case decides the same";
            "verdicts.is_denied() && !checks.iter().any(counts)" => "false"
                because "a shortcut: the general case decides the same";
        }
        "all_admit" {
            "check.limit().algorithm().counts()" => "true"
                because "a limit that counts nothing records nothing, either";
            "fn all_admit" => "return false"
                because "a shortcut that is not taken: the general case decides the same";
            "check.cost() > 0 && check.limit().algorithm().counts() && wait(check, states.state(index), now, check.cost()).is_zero()" => "false"
                because "a shortcut that is not taken: the general case decides the same";
            "0" => "1"
                because "a shortcut that is not taken: the general case decides the same";
        }
        "Request::evaluate_take" {
            "0" => "1" # 1
                because "a request without checks is malformed, and not evaluated";
            "0" => "1" # 2
                because "a request without checks is malformed, and not evaluated";
        }
        "Evaluation::writes_to" {
            "false" => "true" # 3
                because "never reached: a refund and a settlement change each of their limits in some way";
        }
        "Evaluation::record" {
            "0" => "1" # 1
                because "what remains is overwritten before it is read";
        }
        "Evaluation::cost" {
            "0" => "1"
                because "never reached: a peek and a refund charge nothing";
        }
    }
    "crates/tollgate-core/src/fingerprint.rs" {
        "Fingerprint::of" {
            "request.caller_time().is_some()" => "request.caller_time().is_none()"
                because "the two clocks are hashed as each other, and still told apart";
        }
    }
    "crates/tollgate-core/src/quota.rs" {
        "Quota::write_window" {
            "1" => "2"
                because "never used: every window is a multiple of the last unit";
            "1" => "0"
                because "never used: every window is a multiple of the last unit";
        }
    }
    "crates/tollgate-core/src/request.rs" {
        "Request::validate_checks" {
            "self.checks().len() == 1 && self.receipt().is_none()" => "false"
                because "a shortcut: one check is neither too many nor named twice";
        }
    }
    "crates/tollgate-memory/src/answers.rs" {
        "MemoryStore::decide_once" {
            "*answer = Answer::default();" => ""
                because "what is forgotten is replaced before the call is decided";
            "self.answer(first, caller, |answer, _| match &decided { Ok(verdicts) if verdicts.is_allowed() => { answer.verdicts = Some(Box::new(verdicts.again())); } _ => *answer = Answer::default(), })?;" => "let _ = self.answer(first, caller, |answer, _| match &decided { Ok(verdicts) if verdicts.is_allowed() => { answer.verdicts = Some(Box::new(verdicts.again())); } _ => *answer = Answer::default(), });"
                because "never an error: an answer whose place was dropped meanwhile asks for no new one";
        }
        "MemoryStore::answer" {
            "true" => "false"
                because "of the terms only the name is read, which is the same";
        }
        "hash" {
            "Operation::Consume =>" => "left out"
                because "another number tells it apart just as well";
            "Operation::TakeUpTo =>" => "left out"
                because "another number tells it apart just as well";
            "1" => "2"
                because "a reservation is still told apart by its longest delay";
            "2" => "3"
                because "another number tells it apart just as well";
            "2" => "1"
                because "a reservation is still told apart by its longest delay";
            "3" => "4"
                because "never reached: no other operation has an id";
            "3" => "2"
                because "never reached: no other operation has an id";
        }
        "call_lock" {
            "fn call_lock" => "return 0"
                because "how many calls share a lock is tuning: those of one id always do";
            "fn call_lock" => "return 1"
                because "how many calls share a lock is tuning: those of one id always do";
            "key.hash(&mut hasher);" => ""
                because "how many calls share a lock is tuning: those of one id always do";
        }
    }
    "crates/tollgate-memory/src/composite.rs" {
        "MemoryStore::decide_any" {
            "new.is_empty()" => "true"
                because "only while another thread removes the expired state of a key does it matter";
        }
        "MemoryStore::decide_several" {
            "(Operation::Consume | Operation::Peek, 2) =>" => "left out"
                because "a shortcut: the general case decides the same";
            "(Operation::Consume | Operation::Peek, 3) =>" => "left out"
                because "a shortcut: the general case decides the same";
            "(Operation::Consume | Operation::Peek, 4) =>" => "left out"
                because "a shortcut: the general case decides the same";
        }
        "MemoryStore::decide_few" {
            "0" => "1"
                because "the shard of any of the probes will do";
            "has_equal_hashes(&probes) || probes.iter().any(is_elsewhere)" => "true"
                because "a shortcut that is not taken: the general case decides the same";
            "self.shard_of(probe, timeline) != number" => "true"
                because "a shortcut that is not taken: the general case decides the same";
            "probes.iter().any(is_elsewhere)" => "false"
                because "a state that is in another shard is not found, and the general case decides";
            "self.shard_of(probe, timeline) != number" => "self.shard_of(probe, timeline) == number"
                because "a state that is in another shard is not found, and the general case decides";
            "self.shard_of(probe, timeline) != number" => "false"
                because "a state that is in another shard is not found, and the general case decides";
        }
        "MemoryStore::consume_stored" {
            "fn consume_stored" => "return false"
                because "a shortcut: the general case decides the same";
            "0" => "1"
                because "all checks are for one key";
            "has_equal_hashes(&probes)" => "true"
                because "a shortcut that is not taken: the general case decides the same";
        }
        "has_equal_hashes" {
            "fn has_equal_hashes" => "return true"
                because "a shortcut that is not taken: the general case decides the same";
            "1" => "0"
                because "before the first probe there is none";
            "other.hash == probe.hash" => "true"
                because "a shortcut that is not taken: the general case decides the same";
        }
        "MemoryStore::decide_any" {
            "new.is_empty()" => "false"
                because "a later reading of the clock is as good";
            "new_keys > 0" => "new_keys >= 0"
                because "sweeping more often changes no decision";
            "new_keys > 0" => "true"
                because "sweeping more often changes no decision";
            "new_keys == 0" => "false"
                because "a shortcut: there is always room for no key";
            "0" => "1"
                because "how often room is looked for is tuning: each time, other threads must take what was freed";
        }
    }
    "crates/tollgate-memory/src/counter.rs" {
        "Counter::read_slowly" {
            "0" => "1"
                because "whoever replaces a stretch has raised the floor, which is more than a nanosecond";
        }
    }
    "crates/tollgate-memory/src/probe.rs" {
        "Probe::of_same_key" {
            "self.key_hash ^ inside::identity_hash(check.limit())" => "self.key_hash"
                because "a shortcut that is not taken: the general case decides the same";
        }
        "Probe::fingerprint" {
            "timeline == Timeline::Caller" => "timeline != Timeline::Caller"
                because "the fingerprints of the two clocks only have to differ";
        }
        "KeyHasher::hash" {
            "8" => "7"
                because "which bits of the last word the length is mixed into is tuning";
            "8" => "9"
                because "which bits of the last word the length is mixed into is tuning";
        }
        "pack" {
            "16" => "17"
                because "the three bytes still have bits of their own";
            "0" => "1"
                because "what stands for bytes that are missing is the same for all keys of a length";
            "0" => "1" # 3
                because "what stands for bytes that are missing is the same for all keys of a length";
        }
    }
    "crates/tollgate-memory/src/shard.rs" {
        "Entry::is_of" {
            "inside::is_same(&self.limit, limit)" => "false"
                because "a shortcut: clones of one limit are found to share their states";
        }
        "Entry::adopt" {
            "!inside::is_same(&self.limit, limit)" => "true"
                because "a shortcut: a limit is replaced by itself";
        }
        "Shard::sweep" {
            "places.min(self.places())" => "self.places()"
                because "how many places are looked at in one go is tuning";
        }
        "Shard::shrink_if_sparse" {
            "self.places() > LEAST_SHRUNK" => "self.places() >= LEAST_SHRUNK"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "self.places() > LEAST_SHRUNK && held < self.places() / 8" => "self.places() > LEAST_SHRUNK || held < self.places() / 8"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "self.places() > LEAST_SHRUNK && held < self.places() / 8" => "true"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "self.places() > LEAST_SHRUNK" => "true"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "held < self.places() / 8" => "held <= self.places() / 8"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "held < self.places() / 8" => "true"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "self.places() / 8" => "self.places() * 8"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "8" => "9"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "8" => "7"
                because "when a table shrinks is tuning; that sweeping gives memory back is tested";
            "held * 2" => "held + 2"
                because "how far a table shrinks is tuning: it always holds what it held";
            "2" => "1"
                because "how far a table shrinks is tuning: it always holds what it held";
            "2" => "3"
                because "how far a table shrinks is tuning: it always holds what it held";
        }
    }
    "crates/tollgate-memory/src/families.rs" {
        "MemoryStore::lease_now" {
            "false" => "true"
                because "of the terms that leases are kept with, only the identity is read, which does not change";
        }
    }
    "crates/tollgate-memory/src/tables.rs" {
        "Table::default" {
            "0" => "1" # 1
                because "where a search for states to drop begins is tuning: it goes on around the table";
        }
        "Tables::lock" {
            "32" => "33"
                because "which bits choose a shard is tuning, as long as the table does not search by them";
            "32" => "31"
                because "which bits choose a shard is tuning, as long as the table does not search by them";
        }
        "Tables::of" {
            "timeline == Timeline::Caller" => "timeline != Timeline::Caller"
                because "which half of the shards is whose does not matter: all code asks here";
        }
        "Tables::make_room" {
            "2" => "3"
                because "what is left after all shards means that all were looked at in full: nothing is left to drop";
            "left == 0" => "false"
                because "a shortcut: no bucket is looked at after the last";
            "0" => "1" # 3
                because "whether the last bucket is looked at is tuning";
        }
        "MemoryStore::decide_kept" {
            "0" => "1"
                because "how often room is looked for is tuning: each time, other threads must take what was freed";
            "entry.terms != *terms" => "true"
                because "a shortcut: terms are replaced by their equals";
            "1" => "2" # 3
                because "when room for more is looked for, one key is tried to be inserted in any case";
        }
    }
    "crates/tollgate-memory/src/store.rs" {
        "MemoryStore::consume_all_now" {
            "[one] =>" => "left out"
                because "a shortcut: the general case decides the same";
            "[one, two] =>" => "left out"
                because "a shortcut: the general case decides the same";
            "[one, two, three] =>" => "left out"
                because "a shortcut: the general case decides the same";
            "[one, two, three, four] =>" => "left out"
                because "a shortcut: the general case decides the same";
        }
        "MemoryStore::decide_now" {
            "([check], ..) =>" => "left out"
                because "a shortcut: one key is decided as several are";
            "([check], Operation::Consume, None) =>" => "left out"
                because "a shortcut: the general case decides the same";
        }
        "MemoryStore::release" {
            "keys > 0" => "keys >= 0"
                because "a shortcut: to release no key changes nothing";
            "keys > 0" => "true"
                because "a shortcut: to release no key changes nothing";
        }
        "MemoryStore::shard_of" {
            "32" => "33"
                because "which bits choose a shard is tuning, as long as the table does not search by them";
            "32" => "31"
                because "which bits choose a shard is tuning, as long as the table does not search by them";
        }
        "MemoryStore::decide_new" {
            "0" => "1"
                because "how often room is looked for is tuning: each time, other threads must take what was freed";
            "1" => "2" # 2
                because "when room for more is looked for, one key is tried to be inserted in any case";
        }
        "MemoryStore::make_room" {
            "self.len() + keys <= self.max_keys" => "self.len() + keys < self.max_keys"
                because "the keys are tried to be inserted once more in any case";
            "self.len() + keys <= self.max_keys" => "false"
                because "the keys are tried to be inserted once more in any case";
            "self.len() + keys <= self.max_keys" => "self.len() + keys < self.max_keys" # 2
                because "the keys are tried to be inserted once more in any case";
            "self.len() + keys <= self.max_keys" => "false" # 2
                because "the keys are tried to be inserted once more in any case";
            "true" => "false"
                because "the keys are tried to be inserted once more in any case";
        }
        "MemoryStore::consume_now" {
            "drop(shard);" => "" # 2
                because "the lock is released on return, a few nanoseconds later";
        }
        "MemoryStore::decide_one" {
            "drop(shard);" => ""
                because "the lock is released on return, a few nanoseconds later";
        }
    }
    "crates/tollgate-mock/src/mock/decision.rs" {
        "opinion" {
            "capacity.saturating_sub(consumes)" => "capacity.wrapping_sub(consumes)"
                because "what remains is read only if the cost fits the capacity";
        }
        "reset_after" {
            "verdict.capacity().saturating_sub(verdict.remaining())" => "verdict.capacity().wrapping_sub(verdict.remaining())"
                because "no more remains than the capacity";
        }
    }
    "crates/tollgate-mock/src/mock/mod.rs" {
        "MockStore::new" {
            "fn new" => "return Default::default()"
                because "that is what it does";
        }
        "MockStore::supports" {
            "ReceivedCall::of(&request).is_some()" => "true"
                because "there is no operation yet that the mock does not know";
        }
    }
    "crates/tollgate-core/src/time.rs" {
        "date" {
            "1_460" => "1459"
                because "the year is the same on each of the 146,097 days of four centuries";
            "36_524" => "36523"
                because "the year is the same on each of the 146,097 days of four centuries";
            "146_096" => "146095"
                because "the year is the same on each of the 146,097 days of four centuries";
        }
    }
    "crates/tollgate-wire/src/admin/clear.rs" {
        "Clear::new" {
            "fn new" => "return Default::default()"
                because "that is what it does";
        }
    }
    "crates/tollgate-core/src/lease/request.rs" {
        "lease::Request::validate" {
            "1" => "2" # 1
                because "the weight of a request without one is only compared with zero";
        }
    }
    "crates/tollgate-core/src/lease/state.rs" {
        "lease::State::insert" {
            "held.expires <= lease.expires" => "held.expires < lease.expires"
                because "leases that end together are found by their ids, and give their room back together";
        }
    }
    "crates/tollgate-core/src/schedule/call.rs" {
        "Placement::of" {
            "events.first()" => "events.last()"
                because "a call that answers with a placement adds one event";
        }
    }
    "crates/tollgate-core/src/schedule/events.rs" {
        "schedule::State::insert" {
            "(other.time, &other.id) < (entry.time, &entry.id)" => "(other.time, &other.id) <= (entry.time, &entry.id)"
                because "no two events have the same id and time: only an event that is over may have the id of another one";
        }
        "schedule::Request::reserve" {
            "0" => "1" # 3
                because "the index is not read where periods are missing";
            "0" => "1" # 4
                because "never used: where no time is free, a quota is in the way";
        }
        "schedule::Request::find" {
            "0" => "1"
                because "the index is not read where periods are missing";
        }
    }
    "crates/tollgate-core/src/schedule/quota.rs" {
        "schedule::Quota::from_str" {
            "0" => "1" # 2
                because "an error about a value does not depend on how far the text was read";
        }
    }
    "crates/tollgate-core/src/schedule/search.rs" {
        "View::weight" {
            "0" => "1"
                because "never used: only entries that exist are weighed";
        }
        "View::first_after" {
            "fn first_after" => "return 0"
                because "a shortcut: events too early to matter are passed one by one";
            "time_of(entry) <= time" => "time_of(entry) < time"
                because "an event that leaves its windows at the first time is passed without an effect";
            "time_of(entry) <= time" => "false"
                because "a shortcut: events too early to matter are passed one by one";
            "time_of(entry) < -time" => "time_of(entry) <= -time"
                because "an event that leaves its windows at the first time is passed without an effect";
            "time_of(entry) < -time" => "true"
                because "a shortcut: events too early to matter are passed one by one";
        }
        "Window::free_from" {
            "time <= last" => "true"
                because "a shortcut: past the last time, it does not matter which time is free";
            "first - self.length >= time" => "false"
                because "a shortcut: later events leave room at this time, and those that are passed leave room at every time";
            "first - self.length >= time" => "first - self.length > time"
                because "a shortcut that is not taken: the general case decides the same";
            "leaves > time" => "leaves >= time"
                because "an event that leaves its windows at this time moves the search to this time";
        }
        "free_of" {
            "0" => "1"
                because "never used: no search goes before the epoch";
        }
    }
    "crates/tollgate-core/src/schedule/terms.rs" {
        "schedule::Terms::new" {
            "0" => "1" # 1
                because "the horizon is overwritten before it is read";
            "0" => "1" # 2
                because "never used: there is at least one quota";
        }
        "Inner::most_events" {
            "0" => "1"
                because "there is at least one quota";
        }
        "largest" {
            "2" => "3"
                because "where a range is divided is tuning: it shrinks until one number is left";
        }
    }
    "crates/tollgate-wire/src/admin/mod.rs" {
        "Sender::masters" {
            "attempts.next()" => "attempts.next_back()"
                because "attempts are only counted";
        }
    }
    "crates/tollgate-wire/src/admin/states.rs" {
        "compared" {
            "0" => "1"
                because "a microsecond after the epoch is not ahead of any clock either";
        }
    }
    "crates/tollgate-wire/src/store.rs" {
        "Core::run" {
            "loads.next()" => "loads.next_back()"
                because "only how many are left counts";
        }
        "WireStore::execute" {
            "request.has_id()" => "true"
                because "a shortcut: a request without an id is then copied";
        }
        "WireStore::packed" {
            "asked.id?;" => ""
                because "a shortcut: what is made for a call without an id is dropped again";
            "asked.id?;" => "let _ = asked.id;"
                because "a shortcut: what is made for a call without an id is dropped again";
        }
        "WireStore::enter" {
            "request.checks().first()" => "request.checks().last()"
                because "in a cluster, all keys of a request have the same partition";
        }
    }
    "crates/tollgate-wire/src/admin/probe.rs" {
        "probe" {
            "false" => "true"
                because "whether a user may run scripts does not depend on the script";
            "1" => "2" # 3
                because "the lease is acquired whatever the number of places";
            "1" => "2"
                because "a script does not depend on the cost of a check";
            "1" => "0"
                because "a script does not depend on the cost of a check";
        }
        "commands" {
            "replies.iter().all(|reply| reply.error().is_none())" => "replies.iter().any(|reply| reply.error().is_none())"
                because "one command has one reply";
        }
        "own_key" {
            "0" => "1"
                because "any key in the right slot will do";
        }
    }
    "crates/tollgate-wire/src/batch.lua" {
        "" {
            "if number ~= number_before then number_before, text = number, format('%d', number) end" => "if true then number_before, text = number, format('%d', number) end"
                because "a shortcut: the same number gives the same text";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl > 1 and ttl <= 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl >= 2 and ttl <= 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl >= 0 and ttl <= 9007199254740991 then"
                because "no state, whoever wrote it, has a TTL of zero";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl >= 1 and ttl < 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl >= 1 and ttl <= 9007199254740992 then"
                because "servers take this TTL, too";
            "if is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if is_written and ttl >= 1 and ttl <= 9007199254740990 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl > 1 and ttl <= 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl >= 2 and ttl <= 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl >= 0 and ttl <= 9007199254740991 then"
                because "no state, whoever wrote it, has a TTL of zero";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl >= 1 and ttl < 9007199254740991 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740992 then"
                because "servers take this TTL, too";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740990 then"
                because "a shortcut: a state with this TTL is only written by itself";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if shares == 0 and is_written and ttl < 1 and ttl <= 9007199254740991 then"
                because "a shortcut: the general function writes the same";
            "if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then" => "if false then"
                because "a shortcut: the general function writes the same";
            "local are_set = written > 1 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err" => "local are_set = written >= 1 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err"
                because "a shortcut: two commands for one key write the same as one";
            "local are_set = written > 1 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err" => "local are_set = written > 2 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err"
                because "a shortcut: two commands for one key write the same as one";
            "local are_set = written > 1 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err" => "local are_set = written > 0 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err"
                because "a shortcut: two commands for one key write the same as one";
            "if shares == 1 or known[key] ~= nil then known[key] = value end" => "if shares ~= 1 or known[key] ~= nil then known[key] = value end"
                because "a key that is written was read before, so it is known if any are shared";
            "if shares == 1 or known[key] ~= nil then known[key] = value end" => "if shares == 2 or known[key] ~= nil then known[key] = value end"
                because "a key that is written was read before, so it is known if any are shared";
            "if shares == 1 or known[key] ~= nil then known[key] = value end" => "if shares == 0 or known[key] ~= nil then known[key] = value end"
                because "a key that is written was read before, so it is known if any are shared";
            "if shares == 1 or known[key] ~= nil then known[key] = value end" => "if true then known[key] = value end"
                because "a key that is not shared is not read again";
            "local left, calls = 0, 0" => "local left, calls = 0, 1"
                because "how many calls a run stands for is read before it is used";
            "if operation == CONSUME and limits == 1 and has_id == 0 then" => "if operation == CONSUME and limits == 0 and has_id == 0 then"
                because "a shortcut: the general case decides the same";
            "if operation == CONSUME and limits == 1 and has_id == 0 then" => "if false then"
                because "a shortcut: the general case decides the same";
            "are_alone = false" => ""
                because "a shortcut: keys are then read one by one";
            "answers[replied + 1], answers[replied + 2] = pack('<BI4I4', 1, admitted or 1, #reply), reply" => "answers[replied + 1], answers[replied + 2] = pack('<BI4I4', 1, admitted or 0, #reply), reply"
                because "how many are admitted is read only of several equal calls";
            "if not are_alone then" => "if true then"
                because "a shortcut: what is known need not be looked for";
            "for i = 1, #KEYS do known[KEYS[i]] = values[i] or nil end" => "for i = 2, #KEYS do known[KEYS[i]] = values[i] or nil end"
                because "a shortcut: the first key is then read by itself";
            "while left > 0 or at <= #requests do" => "while left > 0 or at < #requests do"
                because "a run of requests takes more than one byte";
            "local from = find(failure, 'READONLY ', 1, true)" => "local from = find(failure, 'READONLY ', 2, true)"
                because "an error that was caught as a text begins with where it was";
            "local from = find(failure, 'READONLY ', 1, true)" => "local from = find(failure, 'READONLY ', 0, true)"
                because "a search from before the first byte begins with it";
            "local from = find(failure, 'READONLY ', 1, true)" => "local from = find(failure, 'READONLY ', 1, false)"
                because "the word stands for itself as a pattern, too";
            "answers[replied] = pack('<BI4I4', 0, 1, #failure) .. failure" => "answers[replied] = pack('<BI4I4', 0, 2, #failure) .. failure"
                because "how many are admitted is not read of an error";
            "answers[replied] = pack('<BI4I4', 0, 1, #failure) .. failure" => "answers[replied] = pack('<BI4I4', 0, 0, #failure) .. failure"
                because "how many are admitted is not read of an error";
            "if type(failure) == 'table' then failure = failure.err else failure = 'ERR Error running script: ' .. failure end" => "if false then failure = failure.err else failure = 'ERR Error running script: ' .. failure end"
                because "Redis 6.2, Redis 7.0 and Valkey 9.1 give an error that was caught as a text, never as a table";
        }
    }
    "crates/tollgate-wire/src/batch/calls.rs" {
        "Batch::new" {
            "fn new" => "return Default::default()"
                because "a shortcut: vectors grow when they have to";
        }
        "Batch::end" {
            "self.is_answered.store(true, Ordering::Release);" => ""
                because "a shortcut: the batch tells the same behind its lock";
            "true" => "false"
                because "a shortcut: the batch tells the same behind its lock";
        }
        "Member::decide" {
            "drop(locked);" => ""
                because "it is dropped a little later; so that no other call waits for it";
        }
        "Member::poll" {
            "self.batch.is_answered.load(Ordering::Acquire)" => "false"
                because "a shortcut: the batch tells the same behind its lock";
        }
        "Calls::is_joined_by" {
            "call.has_keys(&group.keys)" => "true"
                because "only keys with the same random hash of 64 bits come here";
        }
        "Member::drop" {
            "!self.batch.is_answered.load(Ordering::Relaxed)" => "true"
                because "a shortcut: the place of a call that has ended is not read any more";
        }
        "Group::decide" {
            "Some(series) =>" => "left out"
                because "a shortcut: the reply is then read again";
        }
        "Calls::place" {
            "0" => "1"
                because "the number of a call is set when it is sent";
        }
        "Batch::expire" {
            "drop(calls);" => ""
                because "it is dropped a little later; so that nobody who is woken waits for it";
        }
        "Batch::close" {
            "drop(calls);" => ""
                because "it is dropped a little later; so that nobody who is woken waits for it";
        }
        "Member::late" {
            "calls.places[self.place].state = State::Gone;" => ""
                because "the call gives up its place a moment later, which does the same; another thread may send the call between";
        }
    }
    "crates/tollgate-wire/src/batch/queue.rs" {
        "Traffic::take_first" {
            "self.waiting.is_empty()" => "false"
                because "a shortcut: the hashes are then removed one by one";
        }
        "Traffic::batch" {
            "number.checked_sub(self.first)" => "Some(number.wrapping_sub(self.first))"
                because "no batch waits at an index that is so large";
        }
    }
    "crates/tollgate-wire/src/batch/mod.rs" {
        "send_batch" {
            "deadline.max((runtime.now)())" => "(runtime.now)()"
                because "a timer that ends early is started again";
        }
        "ended" {
            "next_poll().await;" => ""
                because "a shortcut: nothing has ended yet when a call was just made";
        }
    }
    "crates/tollgate-wire/src/batch/call.rs" {
        "BatchedCall::new" {
            "Operation::TakeUpTo =>" => "left out"
                because "a shortcut: calls are then compared by their arguments";
            "Some(Act::Take)" => "None"
                because "a shortcut: calls are then compared by their arguments";
        }
        "BatchedCall::has_keys" {
            "fn has_keys" => "return true"
                because "only keys with the same random hash of 64 bits come here";
            "checks.len() == keys.len() && pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))" => "checks.len() == keys.len() || pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))"
                because "only keys with the same random hash of 64 bits come here";
            "checks.len() == keys.len() && pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))" => "true"
                because "only keys with the same random hash of 64 bits come here";
            "checks.len() == keys.len()" => "true"
                because "only keys with the same random hash of 64 bits come here";
            "pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))" => "true"
                because "only keys with the same random hash of 64 bits come here";
            "pairs.all(|(check, key)| self.keyspace.is_of(check, is_caller, key))" => "pairs.any(|(check, key)| self.keyspace.is_of(check, is_caller, key))"
                because "only keys with the same random hash of 64 bits come here";
        }
        "Kind::is_of" {
            "(None, None, Some(packed)) =>" => "left out"
                because "a shortcut: an argument is then sent once for each call";
            "self.argument == packed.argument" => "false"
                because "a shortcut: an argument is then sent once for each call";
        }
        "Terms::are_of" {
            "is_same(limit, of) || limit == of" => "is_same(limit, of) && limit == of"
                because "a shortcut: limits that are equal without being clones are then of two kinds";
            "is_same(limit, of)" => "false"
                because "a shortcut: clones are equal";
            "limit == of" => "false"
                because "a shortcut: limits that are equal without being clones are then of two kinds";
        }
    }
    "crates/tollgate-wire/src/batch/reply.rs" {
        "argument" {
            "groups.next_if_eq(&(kind, calls)).is_some()" => "false"
                because "a shortcut: each request is then a run of its own";
            "kind.argument.len() + 7" => "kind.argument.len() - 7" because "only how much room is reserved";
            "7" => "8" because "only how much room is reserved";
            "7" => "6" because "only how much room is reserved";
            "512" => "513" because "only how much room is reserved";
            "512" => "511" because "only how much room is reserved";
        }
    }
    "crates/tollgate-wire/src/codec.rs" {
        "Series::decide" {
            "consumes && expected" => "consumes || expected"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "consumes && expected" => "true"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "consumes" => "true"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "expected" => "true"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "!changes && let Some(verdicts) = &self.unchanged" => "false"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "!changes" => "false"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "self.unchanged = Some(decision.again());" => ""
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "Some(decision.again())" => "None"
                because "a shortcut: what is kept of calls that change nothing is decided again";
            "counted < self.counted" => "counted <= self.counted"
                because "a shortcut: the states are then computed from the first one";
            "counted < self.counted" => "true"
                because "a shortcut: the states are then computed from the first one";
            "counted > self.counted" => "counted >= self.counted"
                because "no calls in between consume nothing";
            "counted > self.counted" => "true"
                because "no calls in between consume nothing";
            "consumes && decision.is_allowed()" => "consumes || decision.is_allowed()"
                because "a shortcut: the states are then computed from the first one";
            "consumes && decision.is_allowed()" => "true"
                because "a shortcut: the states are then computed from the first one";
            "consumes" => "true" # 2
                because "a shortcut: the states are then computed from the first one";
            "decision.is_allowed()" => "true"
                because "a shortcut: the states are then computed from the first one";
        }
        "many_argument" {
            "24 + 64 * request.checks().len()" => "24"
                because "how much memory is reserved is tuning";
            "24" => "25"
                because "how much memory is reserved is tuning";
            "24" => "23"
                because "how much memory is reserved is tuning";
            "64 * request.checks().len()" => "64 + request.checks().len()"
                because "how much memory is reserved is tuning";
            "64 * request.checks().len()" => "64"
                because "how much memory is reserved is tuning";
            "64" => "65"
                because "how much memory is reserved is tuning";
            "64" => "63"
                because "how much memory is reserved is tuning";
        }
        "argument" {
            "24 + 64 * request.checks().len()" => "24"
                because "how large a buffer begins is tuning: it grows as needed";
            "24" => "25"
                because "how large a buffer begins is tuning: it grows as needed";
            "24" => "23"
                because "how large a buffer begins is tuning: it grows as needed";
            "64 * request.checks().len()" => "64 + request.checks().len()"
                because "how large a buffer begins is tuning: it grows as needed";
            "64 * request.checks().len()" => "64"
                because "how large a buffer begins is tuning: it grows as needed";
            "64" => "65"
                because "how large a buffer begins is tuning: it grows as needed";
            "64" => "63"
                because "how large a buffer begins is tuning: it grows as needed";
        }
        "push_member" {
            "1" => "2"
                because "of a block's usual time, a script only asks whether the cost is above zero";
            "Some(2)" => "None"
                because "a script takes every number but 0 and 1 for a length of time";
            "2" => "3"
                because "a script takes every number but 0 and 1 for a length of time";
        }
        "Reply::read" {
            "cost(request, check, allowed).saturating_mul(asked)" => "cost(request, check, allowed).wrapping_mul(asked)"
                because "only a log looks at the cost, and its calls cost too little for that";
        }
        "Series::read" {
            "turn.admitted.saturating_add(1)" => "turn.admitted.wrapping_add(1)"
                because "no more calls are admitted than were sent, which are fewer than 2^32";
        }
    }
    "crates/tollgate-wire/src/hash.rs" {
        "of" {
            "HASHER.hash_one(check.key()) ^ identity_hash(check.limit())" => "HASHER.hash_one(check.key()) | identity_hash(check.limit())"
                because "how a hash is made is tuning: keys with equal ones are compared";
        }
    }
    "crates/tollgate-wire/src/keyspace.rs" {
        "Keyspace::key" {
            "parts.iter().sum::<usize>() + variant.len()" => "parts.iter().sum::<usize>() - variant.len()"
                because "how much room is made at first is tuning";
            "parts.iter().sum::<usize>() + variant.len()" => "parts.iter().sum::<usize>()"
                because "how much room is made at first is tuning";
            "16" => "15"
                because "how much room is made at first is tuning";
            "16" => "17"
                because "how much room is made at first is tuning";
        }
        "escape" {
            "!part.iter().any(|&byte| is_special(byte))" => "false"
                because "a shortcut: a text without special characters is itself";
        }
    }
    "crates/tollgate-wire/src/machine_alone.lua" {
        "" {
            "local head = calls == 1 and heads[#raw]" => "local head = calls == 0 and heads[#raw]"
                because "a shortcut: the bytes are then made again";
            "if not head then" => "if true then"
                because "a shortcut: the bytes are then made again";
            "if calls == 1 then heads[#raw] = head end" => "if calls == 0 then heads[#raw] = head end"
                because "a shortcut: the bytes are then made again";
            "if calls == 1 then heads[#raw] = head end" => "if false then heads[#raw] = head end"
                because "a shortcut: the bytes are then made again";
            "if calls == 1 then heads[#raw] = head end" => "if calls == 1 then end"
                because "a shortcut: the bytes are then made again";
            "if calls > 1 and cost > 0 then" => "if calls >= 1 and cost > 0 then"
                because "one call is decided alike either way";
            "if calls > 1 and cost > 0 then" => "if calls > 0 and cost > 0 then"
                because "one call is decided alike either way";
            "if calls > 1 and cost > 0 then" => "if calls > 1 or cost > 0 then"
                because "one call is decided alike either way; of a cost of zero, more fit than any number, or what is no number, and `min` passes over both";
            "if calls > 1 and cost > 0 then" => "if calls > 1 and cost >= 0 then"
                because "of a cost of zero, more fit than any number, or what is no number, and `min` passes over both";
            "if calls > 1 and cost > 0 then" => "if true then"
                because "one call is decided alike either way; of a cost of zero, more fit than any number, or what is no number, and `min` passes over both";
        }
    }
    "crates/tollgate-wire/src/many.lua" {
        "" {
            "@return (decide(ARGV[1], 0, @count, 1))" => "@return (decide(ARGV[1], 0, @count, 0))"
                because "only whether there are several calls is asked";
        }
    }
    "crates/tollgate-wire/src/lease.rs" {
        "argument" {
            "56 + ID" => "56 - ID"
                because "how large a buffer begins is tuning: it grows as needed";
            "56 + ID" => "56"
                because "how large a buffer begins is tuning: it grows as needed";
            "56" => "57"
                because "how large a buffer begins is tuning: it grows as needed";
            "56" => "55"
                because "how large a buffer begins is tuning: it grows as needed";
        }
    }
    "crates/tollgate-wire/src/schedule.rs" {
        "argument" {
            "256" => "257"
                because "how large a buffer begins is tuning: it grows as needed";
            "256" => "255"
                because "how large a buffer begins is tuning: it grows as needed";
        }
    }
    "crates/tollgate-wire/src/script.rs" {
        "batch" {
            "used(set).any(|(_, twin)| !twin.is_list)" => "used(set).all(|(_, twin)| !twin.is_list)"
                because "a shortcut: strings are then read one by one";
        }
        "Script::of" {
            "1" => "2"
                because "which numbers sequences have does not matter, as long as no two have one";
        }
    }
    "crates/tollgate-core/src/algorithm/sliding_counter/text.rs" {
        "SlidingCounter::write" {
            "fn write" => "return Ok(Default::default())"
                because "that is what it does";
        }
    }
    "crates/tollgate-core/src/algorithm/text.rs" {
        "Options::number" {
            "*given == name" => "true"
                because "no algorithm has another option beside one with a number";
        }
    }
    "crates/tollgate-core/src/algorithm/twin.rs" {
        "double" {
            "1" => "2"
                because "2^53 + 1 is rounded to 2^53, because no double lies between";
        }
    }
    "crates/tollgate-fred/src/engine.rs" {
        "FredEngine::forget" {
            "keys.first()" => "keys.last()"
                because "all keys of one command are in one hash slot";
        }
    }
    "crates/tollgate-redis/src/cluster/importers.rs" {
        "Importers::connecting" {
            "used - entry.used >= UNUSED" => "used - entry.used > UNUSED"
                because "a nanosecond more of a minute is tuning";
        }
    }
    "crates/tollgate-redis/src/connection/sentinel.rs" {
        "SentinelConnection::new" {
            "0" => "1"
                because "generations only have to differ";
        }
        "Shared::find" {
            "1" => "2"
                because "generations only have to differ";
        }
    }
    "crates/tollgate-redis/src/engine.rs" {
        "evalsha" {
            "4 + call.keys().len()" => "4"
                because "a command grows when it has to";
            "4" => "5"
                because "a command grows when it has to";
            "4" => "3"
                because "a command grows when it has to";
            "64 + keys + call.argument().len()" => "64 + keys"
                because "a command grows when it has to";
            "64 + keys" => "64"
                because "a command grows when it has to";
            "64" => "65"
                because "a command grows when it has to";
            "64" => "63"
                because "a command grows when it has to";
        }
    }
    "crates/tollgate-redis/src/connection/link.rs" {
        "Link::is_over" {
            "self.begun.elapsed() >= PAUSE" => "self.begun.elapsed() > PAUSE"
                because "a nanosecond more between attempts is tuning";
        }
        "Link::ended" {
            "self.begun.elapsed() >= patience" => "self.begun.elapsed() > patience"
                because "a nanosecond more between attempts is tuning";
        }
    }
    "crates/tollgate-tokio/src/guard/keeper.rs" {
        "Keeper::prolong" {
            "is_held" => "true"
                because "a lease that is not held is lost as soon as this returns";
        }
    }
    "crates/tollgate-tokio/src/wait/line/mod.rs" {
        "Line::new" {
            "0" => "1" # 3
                because "each call in a line costs one unit at least, so no two of them fit into one";
        }
    }
    "crates/tollgate-tokio/src/wait/turns/mod.rs" {
        "Turns::default" {
            "2" => "3"
                because "past the time in which others are expected, only the place in a round of waits counts";
        }
    }
    "crates/tollgate-wire/src/unit.lua" {
        "" {
            "if cost > 0 then" => "if cost >= 0 then"
                because "of a cost of zero, more fit than any number, or what is no number, and `min` passes over both";
            "if cost > 0 then" => "if true then"
                because "of a cost of zero, more fit than any number, or what is no number, and `min` passes over both";
            "_, _, _, remaining = look(i, TAKE, 0)" => "_, _, _, remaining = look(i, TAKE, 1)"
                because "what remains does not depend on the cost";
            "local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK = 1, 2, 3, 4, 5, 6, 7, 8" => "local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK = 2, 2, 3, 4, 5, 6, 7, 8"
                because "a machine only asks whether it is to settle, to check, to reserve or to block";
            "local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK = 1, 2, 3, 4, 5, 6, 7, 8" => "local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK = 0, 2, 3, 4, 5, 6, 7, 8"
                because "a machine only asks whether it is to settle, to check, to reserve or to block";
            "for i = 2, count do look(i, CHECK) end" => "for i = 1, count do look(i, CHECK) end"
                because "the first limit fails by itself before anything is written";
            "if operation == SETTLE and #argument > 24 + 64 * count then" => "if operation == SETTLE and #argument > 25 + 64 * count then"
                because "what a reservation's receipt adds is 24 bytes for each key";
            "if operation == SETTLE and #argument > 24 + 64 * count then" => "if operation == SETTLE and #argument > 24 + 65 * count then"
                because "what a reservation's receipt adds is 24 bytes for each key";
        }
    }
};

/// The reasons in the list, by mutant id.
#[derive(Debug, Default)]
pub(super) struct Index(HashMap<u64, &'static str>);

impl Index {
    /// Finds the listed mutants among `mutants`.
    ///
    /// # Errors
    ///
    /// If listed mutants are not among them: the code has changed, so they must be judged again.
    pub(super) fn of(mutants: &[Mutant]) -> Result<Self, Box<dyn Error>> {
        let mut reasons = HashMap::new();
        let mut gone = String::new();
        for listed in EQUIVALENT {
            let found = mutants.iter().find(|mutant| {
                mutant.file == listed.file
                    && mutant.place == listed.place
                    && mutant.before == listed.before
                    && mutant.after == listed.after
                    && mutant.nth == listed.nth
            });
            match found {
                Some(found) => _ = reasons.insert(found.id, listed.reason),
                None => gone += &format!("\n{listed:?}"),
            }
        }
        if !gone.is_empty() {
            return Err(format!("listed as equivalent, but gone:{gone}").into());
        }
        Ok(Self(reasons))
    }

    pub(super) fn reason(&self, id: u64) -> Option<&'static str> {
        self.0.get(&id).copied()
    }
}
