-- Schedule: a sorted set. The member `e` and an id is an event, with its time as the score. The
-- member `c` holds the latest instant at which an event was planned, and `w`, followed by an id or
-- alone, the weight of an event other than 1, and that there are such events. Their scores are
-- negative, so that no range of times contains them: -1 - instant, and -weight.
local argument = ARGV[1]
local operation, now, slack, tolerance, horizon, retention, wants_latest, quotas, count, place =
  unpack('<ddddddddd', argument)
local ADD, RESCHEDULE, CANCEL, NEXT, LATEST, RESERVE = 1, 2, 3, 4, 5, 6
local NEVER = 9007199254740992
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key = KEYS[1]

-- Windows have a length, calendars the place of their periods in the argument and how many.
local amounts, lengths, places, periods, reach = {}, {}, {}, {}, 0
for q = 1, quotas do
  local amount, length, many
  amount, length, many, place = unpack('<ddd', argument, place)
  amounts[q], lengths[q], places[q], periods[q] = amount, length, place, many
  place = place + 16 * many
  if many == 0 then reach = max(reach, length) end
end
local times, weights, members = {}, {}, { 'c', 'w' }
for e = 1, count do
  local length
  times[e], weights[e], length, place = unpack('<ddd', argument, place)
  members[e + 2] = 'e' .. sub(argument, place, place + length - 1)
  place = place + length
end

local held = call('ZMSCORE', key, table_unpack(members))
local clock, weighted = 0, held[2]
if held[1] then clock = -1 - held[1] end
local at = max(now, clock)
local earliest, latest = max(at - tolerance, 0), min(at + horizon, NEVER - 1)
local gone = at - tolerance - retention

-- Returns the time of the request's event `e`, if it is planned and still counts.
local function planned(e)
  local time = held[e + 2]
  if time then
    time = tonumber(time)
    if time > gone then return time end
  end
end

local function weight_of(member)
  local weight = weighted and call('ZSCORE', key, 'w' .. sub(member, 2))
  return weight and -weight or 1
end

-- The event that is being moved, and those that this call adds, by time.
local moved
local added_times, added_weights = {}, {}

-- Returns the times of the events from `low` to `high`, in order, and their weights.
local function between(low, high)
  local found, found_weights = {}, {}
  if high < 0 or low > high then return found, found_weights end
  local raw = call('ZRANGEBYSCORE', key, max(low, 0), high, 'WITHSCORES')
  local heavy
  if weighted and raw[1] then
    local names = {}
    heavy = {}
    for i = 1, #raw, 2 do names[#names + 1] = 'w' .. sub(raw[i], 2) end
    for i = 1, #names, 1000 do
      local part = call('ZMSCORE', key, table_unpack(names, i, min(i + 999, #names)))
      for j = 1, min(1000, #names - i + 1) do heavy[i + j - 1] = part[j] end
    end
  end
  local n = 0
  for i = 1, #raw, 2 do
    if raw[i] ~= moved then
      n = n + 1
      found[n], found_weights[n] = tonumber(raw[i + 1]), 1
      local weight = heavy and heavy[(i + 1) / 2]
      if weight then found_weights[n] = -weight end
    end
  end
  local added = #added_times
  if added == 0 then return found, found_weights end
  local merged, merged_weights, m, i = {}, {}, 0, 1
  for j = 1, added do
    local time = added_times[j]
    if time >= low and time <= high then
      while i <= n and found[i] <= time do
        m = m + 1
        merged[m], merged_weights[m] = found[i], found_weights[i]
        i = i + 1
      end
      m = m + 1
      merged[m], merged_weights[m] = time, added_weights[j]
    end
  end
  for rest = i, n do
    m = m + 1
    merged[m], merged_weights[m] = found[rest], found_weights[rest]
  end
  return merged, merged_weights
end

-- Returns the first free time, or nil, and the quota in the way of the first time.
-- Searches for room for `weight` from `from` to `last`, into the future if `sign` is 1, or into the
-- past if it is -1: all times of a search are multiplied by its sign.
local uncovered
local function search(sign, weight, from, last)
  from, last = sign * from, sign * last
  local event_times, event_weights, loaded, known, ahead = {}, {}, 0, from - reach, 0
  -- Knows all events before `time + reach`. Each time, it reads twice as far ahead.
  local function load(time)
    local till = time + reach - 1 + ahead
    ahead = 2 * ahead + reach
    local found, found_weights
    if sign == 1 then
      found, found_weights = between(known + 1, till)
    else
      found, found_weights = between(-till, -known - 1)
    end
    known = till
    local n = #found
    if sign == 1 and loaded == 0 then
      event_times, event_weights, loaded = found, found_weights, n
      return
    end
    for i = 1, n do
      local j = i
      if sign == -1 then j = n + 1 - i end
      loaded = loaded + 1
      event_times[loaded], event_weights[loaded] = sign * found[j], found_weights[j]
    end
  end
  -- For each quota, the events from `firsts` until before `ends` weigh `sums`.
  local firsts, ends, sums, cached = {}, {}, {}, {}
  for q = 1, quotas do firsts[q], ends[q], sums[q] = 1, 1, 0 end

  local function free_in_window(q, time)
    local length, spare = lengths[q], amounts[q] - weight
    local first, stop, sum = firsts[q], ends[q], sums[q]
    while time <= last do
      if time + reach - 1 > known then load(time) end
      local oldest = event_times[first]
      if not oldest then break end
      local leaves = oldest + length
      if leaves > time then
        while sum <= spare and stop <= loaded do
          sum, stop = sum + event_weights[stop], stop + 1
        end
        if sum <= spare then break end
        local newest = event_times[stop - 1]
        if newest - oldest < length then
          if newest - length >= time then break end
          time = leaves
        end
      end
      if stop > first then
        sum = sum - event_weights[first]
      else
        stop = stop + 1
      end
      first = first + 1
    end
    firsts[q], ends[q], sums[q] = first, stop, sum
    return time
  end

  local function free_in_calendar(q, time)
    local spare = amounts[q] - weight
    while time <= last do
      local real = sign * time
      -- The first period that ends after this time.
      local low, high = 0, periods[q]
      while low < high do
        local middle = floor((low + high) / 2)
        local _, stop = unpack('<dd', argument, places[q] + 16 * middle)
        if stop <= real then low = middle + 1 else high = middle end
      end
      local start, stop
      if low < periods[q] then start, stop = unpack('<dd', argument, places[q] + 16 * low) end
      if not start or start > real then
        uncovered = uncovered or real
        return NEVER
      end
      local known_period = cached[q]
      if not known_period or known_period[1] ~= start then
        local sum = 0
        local _, found_weights = between(start, stop - 1)
        for i = 1, #found_weights do sum = sum + found_weights[i] end
        known_period = { start, sum }
        cached[q] = known_period
      end
      if known_period[2] <= spare then break end
      if sign == 1 then time = stop else time = 1 - start end
    end
    return time
  end

  local function free_from(q, time)
    if weight > amounts[q] then return NEVER end
    if periods[q] == 0 then return free_in_window(q, time) end
    return free_in_calendar(q, time)
  end

  local time, in_the_way = from, nil
  for q = 1, quotas do
    -- Beyond the last time, it does not matter how far.
    local free = min(free_from(q, from), last + 1)
    if free > time then time, in_the_way = free, q end
  end
  if not in_the_way and time <= last then return sign * time end
  repeat
    local before = time
    for q = 1, quotas do time = free_from(q, time) end
  until time == before or time > last
  if time > last then return nil, in_the_way end
  return sign * time, in_the_way
end

-- What the answer is: a status, and up to four numbers, -1 where there is none.
local DONE, QUOTA, PAST, BEYOND, TAKEN, UNKNOWN, UNCOVERED = 0, 1, 2, 3, 4, 5, 6
local function answer(status, index, quota, time, other)
  if uncovered then status, index, quota, time, other = UNCOVERED, nil, nil, uncovered, nil end
  return pack('<bddddd', status, now, index or -1, quota or -1, time or -1, other or -1)
end

-- Returns nil if there is room for the event at `time`, or the answer that refuses it.
local function refusal(e, time, weight)
  local status, quota, bound, free, before = QUOTA, nil, nil, nil, nil
  if time > latest then
    status, bound = BEYOND, latest
  else
    local from = max(time, earliest)
    free, quota = search(1, weight, from, latest)
    if time < earliest then
      status, bound, quota = PAST, earliest, nil
    elseif not quota and not uncovered then
      return nil
    end
  end
  if wants_latest == 1 and time >= earliest then
    before = search(-1, weight, min(time, latest), earliest)
  end
  if status == BEYOND or status == PAST then quota = bound elseif quota then quota = quota - 1 end
  return answer(status, e - 1, quota, free, before)
end

-- Writes events, as scores and members. `newest` is the latest of their times.
local function record(entries, newest)
  -- This read comes first, so that a user who may not run it changes nothing.
  local last = call('ZRANGE', key, -2, -1, 'WITHSCORES')
  for i = 1, #last, 2 do
    if last[i] ~= moved then newest = max(newest, last[i + 1]) end
  end
  entries[#entries + 1], entries[#entries + 2] = -1 - at, 'c'
  call('ZADD', key, table_unpack(entries))
  local ttl = ceil((newest + retention + tolerance - now) / 1000) + slack
  if pcall('PEXPIRE', key, ttl) ~= 1 then
    -- The server's user may not run PEXPIRE. The events would be forgotten too early, or never, so
    -- they are taken back.
    for i = 2, #entries, 2 do call('ZREM', key, entries[i]) end
    if moved then call('ZADD', key, held[3], moved) end
    if held[1] then call('ZADD', key, held[1], 'c') end
    call('PEXPIRE', key, ttl)
  end
  -- Drops the events that no longer count.
  if weighted and gone >= 0 then
    local old = call('ZRANGEBYSCORE', key, 0, gone)
    for i = 1, #old do call('ZREM', key, old[i], 'w' .. sub(old[i], 2)) end
  elseif gone >= 0 then
    call('ZREMRANGEBYSCORE', key, 0, gone)
  end
end

local function entries_of(e, time, entries)
  entries[#entries + 1], entries[#entries + 2] = time, members[e + 2]
  -- The id may have the weight of an event that no longer counts.
  if weighted or weights[e] ~= 1 then
    if not weighted then
      weighted = true
      entries[#entries + 1], entries[#entries + 2] = -1, 'w'
    end
    entries[#entries + 1], entries[#entries + 2] = -weights[e], 'w' .. sub(members[e + 2], 2)
  end
end

if operation == ADD then
  local entries, new = {}, 0
  for e = 1, count do
    local time = planned(e)
    if time then
      if time ~= times[e] or weight_of(members[e + 2]) ~= weights[e] then
        return answer(TAKEN, e - 1, nil, time)
      end
    else
      local refused = refusal(e, times[e], weights[e])
      if refused then return refused end
      new = new + 1
      local j = new
      while j > 1 and added_times[j - 1] > times[e] do
        added_times[j], added_weights[j] = added_times[j - 1], added_weights[j - 1]
        j = j - 1
      end
      added_times[j], added_weights[j] = times[e], weights[e]
    end
  end
  local newest = 0
  for e = 1, count do
    if not planned(e) then
      entries_of(e, times[e], entries)
      newest = max(newest, times[e])
    end
  end
  if new > 0 then record(entries, newest) end
  return answer(DONE, new)
elseif operation == RESCHEDULE then
  local time = planned(1)
  if not time then return answer(UNKNOWN) end
  if time == times[1] then return answer(DONE, 0, nil, time) end
  moved = members[3]
  local refused = refusal(1, times[1], weight_of(moved))
  if refused then return refused end
  record({ times[1], moved }, times[1])
  return answer(DONE, 1, nil, times[1])
elseif operation == RESERVE then
  local time = planned(1)
  if time then
    if weight_of(members[3]) ~= weights[1] then return answer(TAKEN, 0, nil, time) end
    return answer(DONE, 0, nil, time)
  end
  local from = max(times[1], earliest)
  if from > latest then return answer(BEYOND, 0, latest) end
  local free, quota = search(1, weights[1], from, latest)
  if uncovered then return answer() end
  if not free then return answer(QUOTA, 0, (quota or 1) - 1) end
  local entries = {}
  entries_of(1, free, entries)
  record(entries, free)
  return answer(DONE, 1, nil, free)
elseif operation == CANCEL then
  local time = planned(1)
  if time then
    -- This read comes first, so that a user who may not run it changes nothing.
    local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), -1
    for i = 1, #last, 2 do
      if last[i] ~= members[3] then newest = max(newest, last[i + 1]) end
    end
    if newest < 0 then
      call('ZREMRANGEBYSCORE', key, '-inf', '+inf')
    else
      call('ZREM', key, members[3], 'w' .. sub(members[3], 2))
      local ttl = ceil((newest + retention + tolerance - now) / 1000) + slack
      call('PEXPIRE', key, max(ttl, 1))
    end
  end
  return answer(DONE, time and 1 or 0)
elseif operation == NEXT then
  local from = max(times[1], earliest)
  local free = search(1, weights[1], from, latest)
  return answer(DONE, nil, nil, free)
elseif operation == LATEST then
  local free = search(-1, weights[1], min(times[1], latest), earliest)
  return answer(DONE, nil, nil, free)
end
-- A list of the events from the first time until before the second.
local low, high = max(times[1], gone + 1, 0), times[2] - 1
local texts = { answer(DONE, 0) }
if low <= high then
  local raw = call('ZRANGEBYSCORE', key, low, high, 'WITHSCORES')
  texts[1] = answer(DONE, #raw / 2)
  for i = 1, #raw, 2 do
    local id = sub(raw[i], 2)
    texts[#texts + 1] = pack('<ddd', raw[i + 1], weight_of(raw[i]), #id) .. id
  end
end
return concat(texts)
