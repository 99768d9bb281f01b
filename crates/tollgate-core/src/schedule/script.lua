-- Schedule: up to `small` events are a string, and more are a sorted set.
--
-- The string holds the events in the order of their times. It begins with the latest instant at which
-- an event was planned, the number of events, the longest length of an id, and whether there are
-- weights other than 1. The times follow, then the weights if there are such, then the ids: each as
-- one byte with its length, the id, and zeros up to the longest length.
--
-- In the set, the member `e` and an id is an event, with its time as the score. The member `c` holds
-- the latest instant at which an event was planned, and `w`, followed by an id or alone, the weight
-- of an event other than 1, and that there are such events. Their scores are negative: -1 - instant,
-- and -weight. So the events have the highest ranks, in the order of their times.
local argument = ARGV[1]
local operation, now, slack, tolerance, horizon, retention, wants_latest, small, quotas, count, place =
  unpack('<dddddddddd', argument)
local ADD, RESCHEDULE, CANCEL, NEXT, LATEST, RESERVE, LIST = 1, 2, 3, 4, 5, 6, 7
local NEVER = 9007199254740992
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key = KEYS[1]

-- The index of the first event, and how many there are.
local lowest, held = 0, 0
local is_set, clock, width, weighted = false, 0, 0, 0
-- A server out of memory refuses a SET that is the first command of a script that may write. So what
-- cancels reads with such a command, which writes nothing without options.
local raw = pcall(operation == CANCEL and 'GETEX' or 'GET', key) or ''
if raw.err then
  if not find(raw.err, 'WRONGTYPE', 1, true) then return raw end
  is_set = true
  local scores = call('ZMSCORE', key, 'c', 'w')
  if not scores[1] then error('data string too short') end
  clock = -1 - scores[1]
  if scores[2] then weighted = 1 end
  lowest = call('ZCOUNT', key, '-inf', -1)
  held = call('ZCARD', key) - lowest
elseif raw ~= '' then
  clock, held, width, weighted = unpack('<dI4BB', raw)
  if weighted > 1 or #raw ~= 14 + held * (9 + 8 * weighted + width) then
    error('data string too short')
  end
end
-- In the string, each of them from a place on.
local times, times_at = raw, 15
local weights, weights_at = '', 15 + 8 * held
if weighted == 1 then weights = raw end
local ids, ids_at = raw, 15 + 8 * held * (1 + weighted)
-- In the set, what this call changes: the event that it moves, and those that it adds, by time.
local moved, moved_time
local added_times, added_weights, added = nil, nil, 0

local at = max(now, clock)
local earliest, latest = max(at - tolerance, 0), min(at + horizon, NEVER - 1)
local gone = at - tolerance - retention

-- Of each quota: the amount, the length of its window, and the number of its periods if it has those
-- of a calendar. After all quotas, the periods follow in the same order.
local quota = { unpack('<' .. rep('ddd', quotas), argument, place) }
place = quota[3 * quotas + 1]
local periods_at, reach = nil, 0
for q = 1, quotas do
  local periods = quota[3 * q]
  if periods > 0 then
    periods_at = periods_at or {}
    periods_at[q] = place
    place = place + 16 * periods
  else
    reach = max(reach, quota[3 * q - 1])
  end
end

-- Returns the index of the first event after `time`.
local function first_after(time)
  if is_set then return call('ZCOUNT', key, '-inf', max(time, -1)) end
  local low, high = 0, held
  while low < high do
    local middle = floor((low + high) / 2)
    if unpack('<d', times, times_at + 8 * middle) <= time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Returns the times of up to 64 events from `index` on, and, if there are such, the weights other than
-- 1. It leaves out the event that is being moved.
local function read(index, many)
  local found, heavy
  if not is_set then
    local format = '<' .. rep('d', many)
    found = { unpack(format, times, times_at + 8 * index) }
    if weighted == 1 then heavy = { unpack(format, weights, weights_at + 8 * index) } end
    -- The last value is the place after the others.
    found[many + 1] = nil
    return found, heavy
  end
  local range = call('ZRANGE', key, index, index + many - 1, 'WITHSCORES')
  local names, n = {}, 0
  found = {}
  for i = 1, #range, 2 do
    if range[i] ~= moved then
      n = n + 1
      found[n], names[n] = tonumber(range[i + 1]), 'w' .. sub(range[i], 2)
    end
  end
  if weighted == 1 and n > 0 then
    heavy = call('ZMSCORE', key, table_unpack(names))
    for i = 1, n do heavy[i] = heavy[i] and -heavy[i] or 1 end
  end
  return found, heavy
end

-- The instant that no period of a calendar holds.
local uncovered
local free_in_calendar
if periods_at then
  -- Returns the weight of the events from `start` until before `stop`.
  local function weight_within(start, stop)
    local first, after = first_after(start - 1), first_after(stop - 1)
    local sum = after - first
    if weighted == 1 then
      sum = 0
      for i = first, after - 1, 64 do
        local found, heavy = read(i, min(64, after - i))
        for j = 1, #found do sum = sum + heavy[j] end
      end
    elseif moved and moved_time >= start and moved_time < stop then
      sum = sum - 1
    end
    for i = 1, added do
      if added_times[i] >= start and added_times[i] < stop then sum = sum + added_weights[i] end
    end
    return sum
  end

  -- Returns the first time from `time` whose period of the calendar `q` has room. `cursors` keeps the
  -- start of the period, and the weight of its events.
  free_in_calendar = function(sign, q, time, last, spare, cursors)
    while time <= last do
      local real = sign * time + 0
      -- The first period that ends after this time.
      local low, high = 0, quota[3 * q]
      while low < high do
        local middle = floor((low + high) / 2)
        local _, stop = unpack('<dd', argument, periods_at[q] + 16 * middle)
        if stop <= real then low = middle + 1 else high = middle end
      end
      local start, stop
      if low < quota[3 * q] then start, stop = unpack('<dd', argument, periods_at[q] + 16 * low) end
      if not start or start > real then
        uncovered = uncovered or real
        return NEVER
      end
      local cursor = cursors[q]
      if cursor.start ~= start then cursor.start, cursor.sum = start, weight_within(start, stop) end
      if cursor.sum <= spare then break end
      if sign == 1 then time = stop else time = 1 - start end
    end
    return time
  end
end

-- Returns the first free time, or nil, and the quota in the way of the first time.
-- Searches for room for `weight` from `from` to `last`, into the future if `sign` is 1, or into the
-- past if it is -1: all times of a search are multiplied by its sign.
local function search(sign, weight, from, last)
  -- The events that have been read, in the order of the search, and how many more there are.
  local event_times, event_weights, loaded, left, load
  if sign == 1 and not is_set and held > 0 and held <= 64 then
    event_times, event_weights = read(0, held)
    loaded, left = held, 0
  else
    -- First those within reach of the first time.
    local index, unread, next_added = nil, nil, 1
    if sign == 1 then
      index = first_after(from - reach)
      unread = lowest + held - index
    else
      index = first_after(from + reach - 1)
      unread, next_added = index - lowest, added
    end
    event_times, event_weights, loaded, left = {}, {}, 0, unread + added
    -- Appends the added events up to `time`.
    local function merge(time)
      while left > unread and sign * added_times[next_added] <= time do
        loaded, left = loaded + 1, left - 1
        event_times[loaded] = sign * added_times[next_added]
        event_weights[loaded] = added_weights[next_added]
        next_added = next_added + sign
      end
    end
    load = function()
      local many = min(unread, 64)
      if many > 0 then
        if sign == -1 then index = index - many end
        local found, heavy = read(index, many)
        if sign == 1 then index = index + many end
        local n = #found
        for i = 1, n do
          local j = i
          if sign == -1 then j = n + 1 - i end
          merge(sign * found[j])
          loaded = loaded + 1
          event_times[loaded], event_weights[loaded] = sign * found[j], heavy and heavy[j] or 1
        end
        unread, left = unread - many, left - many
      end
      if unread == 0 then merge(NEVER) end
    end
  end

  from, last = sign * from, sign * last
  -- The first event after `from`, of those that have been read.
  local middle = 1
  while middle <= loaded and event_times[middle] <= from do middle = middle + 1 end
  local time, in_the_way, alone = from, nil, true
  -- For each quota, how far it has come: the events from `first` until before `stop` weigh `sum`.
  local cursors = {}
  for q = 1, quotas do cursors[q] = {} end
  repeat
    local start = time
    for q = 1, quotas do
      local free, spare = time, quota[3 * q - 2] - weight
      if alone then free = from end
      if spare < 0 then
        free = NEVER
      elseif quota[3 * q] > 0 then
        free = free_in_calendar(sign, q, free, last, spare, cursors)
      else
        local length = quota[3 * q - 1]
        local first, stop, sum
        if alone then
          first = middle
          while first > 1 and event_times[first - 1] > from - length do first = first - 1 end
          stop, sum = first, 0
        else
          first, stop, sum = cursors[q].first, cursors[q].stop, cursors[q].sum
        end
        while free <= last do
          while first > loaded and left > 0 do load() end
          if first > loaded then break end
          local oldest = event_times[first]
          if oldest - length >= free then break end
          local leaves = oldest + length
          if leaves > free then
            -- The fewest events from `first` on, all within one window, that leave no room.
            while sum <= spare do
              while stop > loaded and left > 0 do load() end
              if stop > loaded or event_times[stop] >= leaves then break end
              sum = sum + (event_weights and event_weights[stop] or 1)
              stop = stop + 1
            end
            -- They leave none at times within a window of all of them.
            if sum > spare then
              if event_times[stop - 1] - length >= free then break end
              free = leaves
            end
          end
          if stop > first then
            sum = sum - (event_weights and event_weights[first] or 1)
          else
            stop = stop + 1
          end
          first = first + 1
        end
        cursors[q].first, cursors[q].stop, cursors[q].sum = first, stop, sum
      end
      if not alone then
        -- Each quota may move the time to where another one has no room.
        time = free
      else
        -- Beyond the last time, it does not matter how far.
        if free > last then free = last + 1 end
        if free > time then time, in_the_way = free, q end
      end
    end
    alone = false
  until time == start or time > last
  if time > last then return nil, in_the_way end
  -- Minus zero becomes zero.
  return sign * time + 0, in_the_way
end

-- Statuses of an answer, which has up to four numbers beside, -1 where there is none.
local DONE, QUOTA, PAST, BEYOND, TAKEN, UNKNOWN, UNCOVERED = 0, 1, 2, 3, 4, 5, 6
if operation == NEXT or operation == LATEST then
  local time, weight = unpack('<dd', argument, place)
  local free
  if operation == NEXT then
    free = search(1, weight, max(time, earliest), latest)
  else
    free = search(-1, weight, min(time, latest), earliest)
  end
  local status = uncovered and UNCOVERED or DONE
  return pack('<bddddd', status, now, -1, -1, uncovered or free or -1, -1)
elseif operation == LIST then
  local low = max(unpack('<d', argument, place), gone + 1)
  local high = unpack('<d', argument, place + 17)
  local first, after = first_after(low - 1), first_after(high - 1)
  local texts = { pack('<bddddd', DONE, now, max(after - first, 0), -1, -1, -1) }
  for index = first, after - 1, 64 do
    local many = min(64, after - index)
    local found, heavy = read(index, many)
    local names = is_set and call('ZRANGE', key, index, index + many - 1)
    for i = 1, many do
      local id
      if names then
        id = sub(names[i], 2)
      else
        local id_at = ids_at + (1 + width) * (index + i - 1)
        id = sub(ids, id_at + 1, id_at + unpack('B', ids, id_at))
      end
      texts[#texts + 1] = pack('<ddd', found[i], heavy and heavy[i] or 1, #id) .. id
    end
  end
  return concat(texts)
end

-- Returns the time to live of a key, if the last of its events is at `newest`: a millisecond more than
-- needed, because if a new one begins while PEXPIRE runs, a key of one millisecond is deleted at once.
local function lifetime(newest)
  return max(ceil((newest + retention + tolerance - now) / 1000) + slack, 0) + 1
end

-- The answer.
local status, index, bound, free, before = DONE, nil, nil, nil, nil
local changed = 0
-- What the set receives: scores and members, and whether these are its first weights.
local entries, is_first_weight

if operation == ADD or operation == RESCHEDULE or operation == RESERVE then
  if is_set then
    entries, added_times, added_weights = { -1 - at, 'c' }, {}, {}
  elseif held > 0 and unpack('<d', times, times_at) <= gone then
    -- The events that no longer count are dropped with the first one that is planned.
    local over = first_after(gone)
    held, times_at, weights_at = held - over, times_at + 8 * over, weights_at + 8 * over
    ids_at = ids_at + (1 + width) * over
  end
end

for e = 1, count do
  local time, weight, length
  time, weight, length, place = unpack('<ddB', argument, place)
  -- The length and the id, as in the string.
  local id = sub(argument, place - 1, place + length - 1)
  local name = is_set and sub(id, 2)
  place = place + length

  -- The event with this id, if it still counts.
  local found, planned, planned_weight
  if is_set then
    local scores = call('ZMSCORE', key, 'e' .. name, 'w' .. name)
    planned, planned_weight = tonumber(scores[1]), scores[2] and -scores[2] or 1
    found = planned and planned > gone
  elseif length <= width then
    local from = ids_at
    repeat
      from = find(ids, id, from, true)
      if not from then break end
      local i = (from - ids_at) / (1 + width)
      if i == floor(i) then
        planned, planned_weight = unpack('<d', times, times_at + 8 * i), 1
        if weighted == 1 then planned_weight = unpack('<d', weights, weights_at + 8 * i) end
        if planned > gone then found = i end
      end
      from = from + 1
    until planned
  end

  local searches = not found
  if operation == CANCEL or operation == RESCHEDULE then
    if not found then
      if operation == RESCHEDULE then status = UNKNOWN end
      break
    elseif operation == RESCHEDULE and planned == time then
      free = time
      break
    end
    -- Takes the event out. Its old time does not stand in its own way.
    if not is_set then
      local after, size = found + 1, 1 + width
      times = sub(times, times_at, times_at + 8 * found - 1)
        .. sub(times, times_at + 8 * after, times_at + 8 * held - 1)
      if weighted == 1 then
        weights = sub(weights, weights_at, weights_at + 8 * found - 1)
          .. sub(weights, weights_at + 8 * after, weights_at + 8 * held - 1)
      end
      ids = sub(ids, ids_at, ids_at + size * found - 1)
        .. sub(ids, ids_at + size * after)
      times_at, weights_at, ids_at, held = 1, 1, 1, held - 1
    elseif operation == RESCHEDULE then
      moved, moved_time = 'e' .. name, planned
    else
      -- This read comes first, so that a user who may not run it changes nothing.
      local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), -1
      for i = 1, #last, 2 do
        if last[i] ~= 'e' .. name then newest = max(newest, last[i + 1]) end
      end
      call('ZREM', key, 'e' .. name, 'w' .. name)
      call('PEXPIRE', key, newest < 0 and 0 or lifetime(newest))
    end
    weight, changed, searches = planned_weight, 1, operation == RESCHEDULE
  elseif found then
    if planned_weight ~= weight or operation == ADD and planned ~= time then
      status, index, free = TAKEN, e - 1, planned
      break
    elseif operation == RESERVE then
      free = planned
    end
  end

  if searches then
    -- Room for the event.
    local from = max(time, earliest)
    if from > latest then
      status, bound = BEYOND, latest
    else
      free, bound = search(1, weight, from, latest)
      if operation == RESERVE then
        if free then
          time, bound = free, nil
        else
          status, bound = QUOTA, bound and bound - 1
        end
      elseif time < earliest then
        status, bound = PAST, earliest
      elseif bound then
        status, bound = QUOTA, bound - 1
      end
    end
    if status ~= DONE then
      index = e - 1
      if wants_latest == 1 and status ~= PAST and operation ~= RESERVE then
        before = search(-1, weight, min(time, latest), earliest)
      end
      break
    elseif uncovered then
      break
    end

    -- Puts it in.
    if is_set then
      entries[#entries + 1], entries[#entries + 2] = time, 'e' .. name
      -- The id may have the weight of an event that no longer counts.
      if not moved and (weighted == 1 or weight ~= 1) then
        is_first_weight = weighted == 0
        entries[#entries + 1], entries[#entries + 2] = -weight, 'w' .. name
      end
      local j = added
      while j > 0 and added_times[j] > time do
        added_times[j + 1], added_weights[j + 1] = added_times[j], added_weights[j]
        j = j - 1
      end
      added_times[j + 1], added_weights[j + 1], added = time, weight, added + 1
    else
      local size = #id
      if size > 1 + width then
        -- All ids get the length of the longest.
        local wider, zeros = {}, rep('\0', size - 1 - width)
        for i = 1, held do
          local id_at = ids_at + (1 + width) * (i - 1)
          wider[i] = sub(ids, id_at, id_at + width) .. zeros
        end
        ids, ids_at, width = concat(wider), 1, size - 1
      end
      if weight ~= 1 and weighted == 0 then
        weights, weights_at, weighted = rep(pack('<d', 1), held), 1, 1
      end
      local i, size = held, 1 + width
      if held > 0 and unpack('<d', times, times_at + 8 * (held - 1)) > time then i = first_after(time) end
      if #id < size then id = id .. rep('\0', size - #id) end
      times = sub(times, times_at, times_at + 8 * i - 1)
        .. pack('<d', time)
        .. sub(times, times_at + 8 * i, times_at + 8 * held - 1)
      if weighted == 1 then
        weights = sub(weights, weights_at, weights_at + 8 * i - 1)
          .. pack('<d', weight)
          .. sub(weights, weights_at + 8 * i, weights_at + 8 * held - 1)
      end
      ids = sub(ids, ids_at, ids_at + size * i - 1)
        .. id
        .. sub(ids, ids_at + size * i)
      times_at, weights_at, ids_at, held = 1, 1, 1, held + 1
    end
    if operation == ADD then
      changed, free = changed + 1, nil
    else
      changed, free = 1, time
    end
  end
end

if uncovered then
  status, index, bound, free, before = UNCOVERED, nil, nil, uncovered, nil
elseif status == DONE then
  index = changed
end

if status ~= DONE or changed == 0 then
  -- Nothing is to be written.
elseif not is_set and held == 0 then
  -- An expiry in the past deletes the key.
  call('GETEX', key, 'PXAT', 1)
elseif not is_set then
  if operation ~= CANCEL then clock = at end
  local ttl = lifetime((unpack('<d', times, times_at + 8 * (held - 1))))
  local state = pack('<dI4BB', clock, held, width, weighted) .. times .. weights .. ids
  call('SET', key, state, 'PX', ttl)
  -- Becomes a set, if the server's user may run the commands for that. ZADD writes nothing here.
  if held > small
    and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, true)
    and pcall('PEXPIRE', key, 0) == 1
  then
    entries = { -1 - clock, 'c' }
    if weighted == 1 then entries[3], entries[4] = -1, 'w' end
    for i = 0, held - 1 do
      local id_at = 1 + (1 + width) * i
      local name = sub(ids, id_at + 1, id_at + unpack('B', ids, id_at))
      entries[#entries + 1], entries[#entries + 2] = unpack('<d', times, 1 + 8 * i), 'e' .. name
      if weighted == 1 then
        local weight = unpack('<d', weights, 1 + 8 * i)
        entries[#entries + 1], entries[#entries + 2] = -weight, 'w' .. name
      end
    end
    call('ZADD', key, table_unpack(entries))
    call('PEXPIRE', key, ttl)
  end
elseif operation ~= CANCEL then
  -- This read comes first, so that a user who may not run it changes nothing.
  local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), added_times[added]
  for i = 1, #last, 2 do
    if last[i] ~= moved then newest = max(newest, last[i + 1]) end
  end
  if is_first_weight then entries[#entries + 1], entries[#entries + 2] = -1, 'w' end
  call('ZADD', key, table_unpack(entries))
  if pcall('PEXPIRE', key, lifetime(newest)) ~= 1 then
    -- The server's user may not run PEXPIRE. The events would be forgotten too early, so they are
    -- taken back.
    for i = 4, #entries, 2 do call('ZREM', key, entries[i]) end
    call('ZADD', key, -1 - clock, 'c')
    if moved then call('ZADD', key, moved_time, moved) end
    call('PEXPIRE', key, lifetime(newest))
  end
  -- Drops the events that no longer count.
  local over = call('ZRANGEBYSCORE', key, 0, gone)
  for i = 1, #over do call('ZREM', key, over[i], 'w' .. sub(over[i], 2)) end
end
return pack('<bddddd', status, now, index or -1, bound or -1, free or -1, before or -1)
