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
local AFTER_ALL = 2 * NEVER
-- A list ends with the first time after so many events.
local PAGE = 500
-- The most events that are read from a set with one command.
local PART = 512
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
-- In the set, the event that this call moves.
local moved, moved_time
-- The events that this call adds, by time: of each its time, its weight, its place in the call, and
-- its id with the length before it.
local added_times, added_weights, added_orders, added_ids, added = {}, {}, {}, {}, 0
-- Whether one of them had another weight than 1.
local heavy_added = false

local at = max(now, clock)
local earliest, latest = max(at - tolerance, 0), min(at + horizon, NEVER - 1)
local gone = at - tolerance - retention

-- Of each quota: the amount, the length of its window, and the number of its periods if it has those
-- of a calendar. After all quotas, the periods follow in the same order. Closed times have an amount of
-- -1, and their periods are the open times: what is between two of them is closed. An empty one at
-- either end says how far the closed times there are known.
local quota = { unpack('<' .. rep('ddd', quotas), argument, place) }
place = quota[3 * quotas + 1]
local periods_at, reach = nil, 0
-- Whether a calendar counts events.
local counts_days = false
for q = 1, quotas do
  local periods = quota[3 * q]
  if periods > 0 then
    periods_at = periods_at or {}
    counts_days = counts_days or quota[3 * q - 2] >= 0
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

-- In the set, the weights other than 1 by the event's member, once they are known; how many there are,
-- and how many events have been read without knowing them.
local known_weights, heavies, unknown = nil, nil, 0

-- Returns the weights of the events with these `names`. Looking up each of many costs more than to read
-- all weights other than 1. The scores of these are below -1, like that of `c`.
local function weights_of(names, n)
  unknown = unknown + n
  local heavy = {}
  if not known_weights then
    heavies = heavies or call('ZCOUNT', key, '-inf', '(-1')
    if 2 * unknown <= heavies then
      local of = {}
      for i = 1, n do of[i] = 'w' .. sub(names[i], 2) end
      heavy = call('ZMSCORE', key, table_unpack(of))
      for i = 1, n do heavy[i] = heavy[i] and -heavy[i] or 1 end
      return heavy
    end
    known_weights = {}
    local all = call('ZRANGEBYSCORE', key, '-inf', '(-1', 'WITHSCORES')
    for i = 1, #all, 2 do known_weights['e' .. sub(all[i], 2)] = -all[i + 1] end
  end
  for i = 1, n do heavy[i] = known_weights[names[i]] or 1 end
  return heavy
end

-- Returns the times of `many` events from `index` on, and, if there are such, the weights other than
-- 1. In the set, it also returns their members, and leaves out the event that is being moved.
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
    local name = range[i]
    if name ~= moved then
      n = n + 1
      found[n], names[n] = range[i + 1] + 0, name
    end
  end
  if weighted == 1 and n > 0 then heavy = weights_of(names, n) end
  return found, heavy, names
end

-- The times of all events, and how much the events up to each weigh together, once all are read. A call
-- that looks at most events more than once reads them once.
local all_times, all_sums

-- Appends `many` events from `index` on to the first `n` of a search, and returns how many these are
-- then: in the order of the search, with their times multiplied by its sign, and, if there is a table
-- for that, with how much all up to each of them weigh together.
local function append(index, many, sign, to_times, to_sums, n)
  local from, to = 1, many
  if sign == -1 then from, to = many, 1 end
  if all_times and not moved then
    local before = index - lowest
    for i = before + from, before + to, sign do
      n = n + 1
      to_times[n] = sign * all_times[i]
      if to_sums then
        to_sums[n] = to_sums[n - 1] + (all_sums and all_sums[i] - all_sums[i - 1] or 1)
      end
    end
    return n
  end
  if is_set and (weighted == 0 or known_weights) then
    local range, known = call('ZRANGE', key, index, index + many - 1, 'WITHSCORES'), known_weights
    for i = 2 * from, 2 * to, 2 * sign do
      local name = range[i - 1]
      if name ~= moved then
        n = n + 1
        to_times[n] = sign * range[i]
        if to_sums then to_sums[n] = to_sums[n - 1] + (known and known[name] or 1) end
      end
    end
    return n
  end
  local found, heavy = read(index, many)
  if sign == 1 then to = #found else from = #found end
  for i = from, to, sign do
    n = n + 1
    to_times[n] = sign * found[i]
    if to_sums then to_sums[n] = to_sums[n - 1] + (heavy and heavy[i] or 1) end
  end
  return n
end

-- Reads all events. Entries before the first and behind the last end a walk through them.
local function read_all()
  local times, sums, n = { [0] = -1 }, weighted == 1 and { [0] = 0 } or nil, 0
  for i = 0, held - 1, PART do
    n = append(lowest + i, min(PART, held - i), 1, times, sums, n)
  end
  times[n + 1] = AFTER_ALL
  all_times, all_sums = times, sums
end

-- The instant that no period of a calendar holds.
local uncovered
local find_period, weight_within, free_in_calendar
if periods_at then
  -- Returns the period of the calendar `q` that holds `time`, if the call brought it, and its place,
  -- or that of the first period after `time`. Tries the period at `place` first, if there is one, and then periods ever farther behind it.
  find_period = function(q, time, place)
    local low, high, at, step = 0, quota[3 * q], periods_at[q], 1
    if not place or place < 0 or place >= high then place, step = floor(high / 2), high end
    while low < high do
      local start, stop = unpack('<dd', argument, at + 16 * place)
      if stop <= time then
        low = place + 1
        place, step = min(low + step, floor((low + high) / 2)), 2 * step
      elseif start > time then
        high = place
        place = floor((low + high) / 2)
      else
        return start, stop, place
      end
    end
    return nil, nil, low
  end

  -- Returns the first time from `time` whose period of the calendar `q` has room, or that is open.
  -- `cursors` keeps the period, its place, and the weight of its events.
  free_in_calendar = function(sign, q, time, last, spare, cursors)
    local cursor, counts = cursors[q], quota[3 * q - 2] >= 0
    local start, stop, period, sum = cursor.start, cursor.stop, cursor.period, cursor.sum
    while time <= last do
      local real = sign * time + 0
      if not start or real >= stop or real < start then
        start, stop, period = find_period(q, real, period and period + sign or not counts and 0)
        if start then
          sum = counts and weight_within(start, stop, 1) or spare
        elseif counts or period == 0 or period == quota[3 * q] then
          uncovered = uncovered or real
          return NEVER
        end
      end
      if not start then
        -- Closed: on to the next open time, or to the end of the one before.
        if sign == -1 then period = period - 1 end
        start, stop = unpack('<dd', argument, periods_at[q] + 16 * period)
        if sign == 1 then time = start else time = 1 - stop end
        sum = spare
      elseif sum <= spare then
        break
      elseif sign == 1 then
        time = stop
      else
        time = 1 - start
      end
    end
    cursor.start, cursor.stop, cursor.period, cursor.sum = start, stop, period, sum
    return time
  end
end

if counts_days then
  -- Returns the weight of the held events from `start` until before `stop`, and about how many events
  -- could have been read in the same time.
  local function look_up(start, stop)
    if is_set and weighted == 0 then
      local sum = call('ZCOUNT', key, start, stop - 1)
      if moved and moved_time >= start and moved_time < stop then sum = sum - 1 end
      return sum, 8
    end
    local first, after = first_after(start - 1), first_after(stop - 1)
    if weighted == 0 then return after - first, 8 end
    local sum = 0
    for i = first, after - 1, PART do
      local heavy, names
      if is_set then
        names = call('ZRANGE', key, i, min(i + PART, after) - 1)
        heavy = weights_of(names, #names)
      else
        names, heavy = read(i, min(PART, after - i))
      end
      for j = 1, #names do
        if names[j] ~= moved then sum = sum + heavy[j] end
      end
    end
    return sum, 24 + 2 * (after - first)
  end

  -- How many events could have been read in the time that all these took.
  local looked_up = 0
  -- Where the last period ended among all events.
  local near = 1

  -- Returns the weight of the events from `start` until before `stop`, of the added ones only from the
  -- place `next_added` on.
  weight_within = function(start, stop, next_added)
    local sum
    if not all_times and looked_up < held then
      local cost
      sum, cost = look_up(start, stop)
      looked_up = looked_up + cost
    else
      if not all_times then read_all() end
      local times, i = all_times, near
      while times[i] < start do i = i + 1 end
      while times[i - 1] >= start do i = i - 1 end
      local first = i
      while times[i] < stop do i = i + 1 end
      near = i
      sum = all_sums and all_sums[i - 1] - all_sums[first - 1] or i - first
    end
    for i = next_added, added do
      local time = added_times[i]
      if time >= stop then break end
      if time >= start then sum = sum + added_weights[i] end
    end
    return sum
  end
end

-- Returns the first free time, or nil, and the quota in the way of the first time.
-- Searches for room for `weight` from `from` to `last`, into the future if `sign` is 1, or into the
-- past if it is -1: all times of a search are multiplied by its sign.
local function search(sign, weight, from, last)
  -- The events that have been read, in the order of the search, and how many more there are.
  -- If there are other weights than 1, also how much all events up to each weigh together.
  -- The entry behind the last event that was read is later than any window, and too heavy for any.
  local event_times, event_sums, loaded, left, load
  if sign == 1 and not is_set and added == 0 and held > 0 and held <= 64 then
    local heavy
    event_times, heavy = read(0, held)
    loaded, left = held, 0
    if heavy then
      event_sums = { [0] = 0 }
      for i = 1, held do event_sums[i] = event_sums[i - 1] + heavy[i] end
      event_sums[held + 1] = AFTER_ALL
    end
    event_times[held + 1] = AFTER_ALL
  else
    -- First those within reach of the first time.
    local index, unread, next_added, part = nil, nil, 1, 64
    if sign == 1 then
      index = first_after(from - reach)
      unread = lowest + held - index
    else
      index = first_after(from + reach - 1)
      unread, next_added = index - lowest, added
    end
    event_times, loaded, left = { AFTER_ALL }, 0, unread + added
    if weighted == 1 or heavy_added then event_sums = { [0] = 0, AFTER_ALL } end
    -- Appends the added events up to `time`.
    local function merge(time)
      while left > unread and sign * added_times[next_added] <= time do
        loaded, left = loaded + 1, left - 1
        event_times[loaded] = sign * added_times[next_added]
        if event_sums then
          event_sums[loaded] = event_sums[loaded - 1] + added_weights[next_added]
        end
        next_added = next_added + sign
      end
    end
    load = function()
      if unread > 0 then
        local many = min(unread, part)
        part = min(2 * part, PART)
        if sign == -1 then index = index - many end
        if left == unread then
          loaded = append(index, many, sign, event_times, event_sums, loaded)
        else
          local some_times, some_sums = {}, event_sums and { [0] = 0 }
          for i = 1, append(index, many, sign, some_times, some_sums, 0) do
            merge(some_times[i])
            loaded = loaded + 1
            event_times[loaded] = some_times[i]
            if event_sums then
              event_sums[loaded] = event_sums[loaded - 1] + some_sums[i] - some_sums[i - 1]
            end
          end
        end
        if sign == 1 then index = index + many end
        unread, left = unread - many, left - many
      end
      if unread == 0 and left > 0 then merge(NEVER) end
      event_times[loaded + 1] = AFTER_ALL
      if event_sums then event_sums[loaded + 1] = AFTER_ALL end
    end
  end

  from, last = sign * from, sign * last
  -- The first event after `from`, of those that have been read.
  local middle = 1
  while event_times[middle] <= from do middle = middle + 1 end
  local time, in_the_way, alone = from, nil, true
  -- For each quota, how far it has come: to the runs of events that begin with `first`.
  local cursors = {}
  for q = 1, quotas do cursors[q] = {} end
  repeat
    local start = time
    for q = 1, quotas do
      local free, amount = time, quota[3 * q - 2]
      local spare = amount - weight
      if alone then free = from end
      if spare < 0 and amount >= 0 then
        free = NEVER
      elseif quota[3 * q] > 0 then
        free = free_in_calendar(sign, q, free, last, spare, cursors)
      else
        local length = quota[3 * q - 1]
        local first, stop
        if alone then
          first = middle
          while first > 1 and event_times[first - 1] > from - length do first = first - 1 end
          stop = first
        else
          first, stop = cursors[q].first, cursors[q].stop
        end
        while free <= last do
          local oldest = event_times[first]
          local leaves = oldest + length
          if leaves <= free then
            first = first + 1
          elseif oldest - length >= free then
            if first <= loaded or left == 0 then break end
            load()
          else
            -- The last of the fewest events from `first` on that leave no room.
            if event_sums then
              local most = event_sums[first - 1] + spare
              while event_sums[stop] <= most do stop = stop + 1 end
            else
              stop = first + spare
            end
            if stop <= loaded then
              local newest = event_times[stop]
              -- They leave none at times within a window of all of them.
              if newest < leaves then
                if newest - length >= free then break end
                free = leaves
              end
              first = first + 1
            elseif left == 0 then
              break
            elseif event_times[loaded] < leaves then
              load()
            else
              first = first + 1
            end
          end
        end
        cursors[q].first, cursors[q].stop = first, stop
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
  -- The list ends early, after all events of one time, if it would be long.
  local next = -1
  if after - first > PAGE then
    local last = read(first + PAGE - 1, 1)[1]
    local page = first_after(last)
    if page < after then after, next = page, last + 1 end
  end
  local texts = { pack('<bddddd', DONE, now, max(after - first, 0), -1, next, -1) }
  for index = first, after - 1, PART do
    local many = min(PART, after - index)
    local found, heavy, names = read(index, many)
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

if operation ~= CANCEL and not is_set and held > 0 and unpack('<d', times, times_at) <= gone then
  -- The events that no longer count are dropped with the first one that is planned.
  local over = first_after(gone)
  held, times_at, weights_at = held - over, times_at + 8 * over, weights_at + 8 * over
  ids_at = ids_at + (1 + width) * over
end

-- Adds an event. Those of one time stay in the order of the call.
local function put(order, time, weight, id)
  local i = added
  while i > 0 and added_times[i] > time do
    added_times[i + 1], added_weights[i + 1] = added_times[i], added_weights[i]
    added_orders[i + 1], added_ids[i + 1] = added_orders[i], added_ids[i]
    i = i - 1
  end
  added_times[i + 1], added_weights[i + 1], added = time, weight, added + 1
  added_orders[i + 1], added_ids[i + 1] = order, id
  heavy_added = heavy_added or weight ~= 1
end

-- Takes out the event of the call with this place in it, and those after it. Returns its time and
-- weight, and its id.
local function take(order)
  local time, weight, id
  local kept = 0
  for i = 1, added do
    local of = added_orders[i]
    if of == order then time, weight, id = added_times[i], added_weights[i], added_ids[i] end
    if of < order then
      kept = kept + 1
      added_times[kept], added_weights[kept] = added_times[i], added_weights[i]
      added_orders[kept], added_ids[kept] = of, added_ids[i]
    end
  end
  added = kept
  return time, weight, id
end

-- Searches a time for an event, or room at its own time, and sets the status.
local function seek(order, time, weight)
  local from = max(time, earliest)
  if from > latest then
    status, bound = BEYOND, latest
  else
    free, bound = search(1, weight, from, latest)
    if operation == RESERVE then
      if free then
        bound = nil
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
    index = order - 1
    if wants_latest == 1 and status ~= PAST and operation ~= RESERVE then
      before = search(-1, weight, min(time, latest), earliest)
    end
  end
end

-- Returns the place in the call of the first of the added events that has no room beside those before
-- it, or nil. The order in which events are added makes no difference to whether all fit. So one look
-- at the windows of all of them is enough, which reads each held event once.
local function first_without_room()
  -- Events from this place in the call on do not count.
  local from_order = NEVER
  for q = 1, quotas do
    local i, next_place = 1, nil
    while quota[3 * q] > 0 and i <= added do
      local start, stop, period = find_period(q, added_times[i], next_place)
      if not start then
        from_order, i = min(from_order, added_orders[i]), i + 1
      elseif quota[3 * q - 2] < 0 then
        next_place, i = period, i + 1
      else
        next_place = period + 1
        local sum, first = weight_within(start, stop, i), i
        while i <= added and added_times[i] < stop do i = i + 1 end
        -- Without the events that are too many, from the last of the call.
        local last = NEVER
        while sum > quota[3 * q - 2] do
          local order, heavy = 0, nil
          for j = first, i - 1 do
            local of = added_orders[j]
            if of < last and of > order then order, heavy = of, added_weights[j] end
          end
          if not heavy then break end
          sum, last = sum - heavy, order
        end
        from_order = min(from_order, last)
      end
    end
  end

  local done, nearby = 0, 0
  while reach > 0 and done < added do
    -- Events that are so far apart that nothing between them counts for both are looked at alone.
    local until_added = done + 1
    while until_added < added and added_times[until_added + 1] - added_times[until_added] < 2 * reach do
      until_added = until_added + 1
    end
    local index = first_after(added_times[done + 1] - reach)
    local after = first_after(added_times[until_added] + reach - 1)
    nearby = nearby + after - index
    if not all_times and 4 * nearby > 3 * held then read_all() end
    -- All these events by time, and the places of the added ones among them.
    local event_times, event_weights, n = {}, {}, 0
    local places, orders, many, next_added = {}, {}, 0, done + 1
    local function merge(time)
      while next_added <= until_added and added_times[next_added] <= time do
        if added_orders[next_added] < from_order then
          n, many = n + 1, many + 1
          event_times[n], event_weights[n] = added_times[next_added], added_weights[next_added]
          places[many], orders[many] = n, added_orders[next_added]
        end
        next_added = next_added + 1
      end
    end
    while index < after do
      local some_times, some_sums = {}, { [0] = 0 }
      local some = append(index, min(PART, after - index), 1, some_times, some_sums, 0)
      for i = 1, some do
        local time = some_times[i]
        if next_added <= until_added and added_times[next_added] <= time then merge(time) end
        n = n + 1
        event_times[n], event_weights[n] = time, some_sums[i] - some_sums[i - 1]
      end
      index = index + PART
    end
    merge(NEVER)
    event_times[n + 1] = AFTER_ALL
    for q = 1, quotas do
      local amount, length, periods = quota[3 * q - 2], quota[3 * q - 1], quota[3 * q]
      -- The place of the first added event in the window, and its index among the places.
      local first, stop, sum, place, nearest = 1, 1, 0, 0, 0
      while periods == 0 and first <= n do
        if place < first then
          repeat nearest = nearest + 1 until nearest > many or places[nearest] >= first
          if nearest > many then break end
          place = places[nearest]
          -- Windows that end before that event are skipped.
          local over = event_times[place] - length
          while event_times[first] <= over do
            if first < stop then sum = sum - event_weights[first] end
            first = first + 1
          end
          if stop < first then stop = first end
        end
        local ends = event_times[first] + length
        while event_times[stop] < ends do
          sum = sum + event_weights[stop]
          stop = stop + 1
        end
        if sum > amount then
          -- Without the events that are too many, from the last of the call.
          while sum > amount and nearest <= many and places[nearest] < stop do
            local last, i = 0, nearest
            while i <= many and places[i] < stop do
              last, i = max(last, orders[i]), i + 1
            end
            from_order = last
            local kept = 0
            for j = 1, many do
              local place_of = places[j]
              if orders[j] < last then
                kept = kept + 1
                places[kept], orders[kept] = place_of, orders[j]
              else
                if place_of >= first and place_of < stop then sum = sum - event_weights[place_of] end
                event_weights[place_of] = 0
              end
            end
            many, nearest = kept, 1
            while nearest <= many and places[nearest] < first do nearest = nearest + 1 end
          end
          place, nearest = 0, 0
        end
        sum = sum - event_weights[first]
        first = first + 1
      end
    end
    done = until_added
  end
  if from_order < NEVER then return from_order end
end

-- In the string, the places of all ids, for the events of a call that adds many.
local places_of_ids
if count > 1 and not is_set then
  places_of_ids = {}
  for i = 0, held - 1 do
    local id_at = ids_at + (1 + width) * i
    places_of_ids[sub(ids, id_at, id_at + unpack('B', ids, id_at))] = i
  end
end

-- The place of the first event that cannot take place at its own time, whatever is held.
local outside
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
  elseif places_of_ids then
    found = places_of_ids[id]
  elseif length <= width then
    local from = ids_at
    repeat
      from = find(ids, id, from, true)
      if not from then break end
      local i = (from - ids_at) / (1 + width)
      if i == floor(i) then found = i end
      from = from + 1
    until found
  end
  if found and not is_set then
    planned, planned_weight = unpack('<d', times, times_at + 8 * found), 1
    if weighted == 1 then planned_weight = unpack('<d', weights, weights_at + 8 * found) end
    found = planned > gone and found
  end

  if operation == CANCEL or operation == RESCHEDULE then
    if not found then
      if operation == RESCHEDULE then status = UNKNOWN end
    elseif operation == RESCHEDULE and planned == time then
      free = time
    else
      -- Takes the event out. Its old time does not stand in its own way.
      changed = 1
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
      if operation == RESCHEDULE then
        put(1, time, planned_weight, id)
      end
    end
  elseif found then
    if planned_weight ~= weight or operation == ADD and planned ~= time then
      status, index, free = TAKEN, e - 1, planned
      break
    elseif operation == RESERVE then
      free = planned
    end
  else
    -- A weight that never fits is made small enough to be added to others exactly.
    put(e, time, min(weight, 4294967296), id)
    if time < earliest or time > latest then
      outside = e
      break
    end
  end
end

if added > 0 then
  local order = added_orders[1]
  if added > 1 then order = first_without_room() or outside end
  if order then
    -- What follows this event in the call matters only if there is room for it.
    local later_status, later_index, later_free = status, index, free
    status, index, free = DONE, nil, nil
    local time, weight, id = take(order)
    seek(order, time, weight)
    if status == DONE and not uncovered then
      if operation == RESERVE then time = free end
      put(order, time, weight, id)
      status, index, free = later_status, later_index, later_free
    end
  end
  changed = added
  if status == DONE and operation ~= ADD then free = added_times[1] end
end

if uncovered then
  status, index, bound, free, before = UNCOVERED, nil, nil, uncovered, nil
elseif status == DONE then
  index = changed
end

if status ~= DONE or changed == 0 then
  -- Nothing is to be written.
elseif not is_set and held + added == 0 then
  -- An expiry in the past deletes the key.
  call('GETEX', key, 'PXAT', 1)
elseif not is_set then
  if operation ~= CANCEL then clock = at end
  if added > 0 then
    -- All ids get the length of the longest.
    local longest, has_weights = width, weighted == 1
    for i = 1, added do
      longest = max(longest, #added_ids[i] - 1)
      has_weights = has_weights or added_weights[i] ~= 1
    end
    if longest > width then
      local wider, zeros = {}, rep('\0', longest - width)
      for i = 1, held do
        local id_at = ids_at + (1 + width) * (i - 1)
        wider[i] = sub(ids, id_at, id_at + width) .. zeros
      end
      ids, ids_at, width = concat(wider), 1, longest
    end
    if has_weights and weighted == 0 then
      weights, weights_at, weighted = rep(pack('<d', 1), held), 1, 1
    end
    local new_times, new_weights, new_ids, size = {}, {}, {}, 1 + width
    local from = 0
    for i = 1, added + 1 do
      local before_it = held
      if i <= added then before_it = first_after(added_times[i]) end
      local n = #new_times
      new_times[n + 1] = sub(times, times_at + 8 * from, times_at + 8 * before_it - 1)
      new_weights[n + 1] = sub(weights, weights_at + 8 * from, weights_at + 8 * before_it - 1)
      new_ids[n + 1] = sub(ids, ids_at + size * from, ids_at + size * before_it - 1)
      if i <= added then
        local id = added_ids[i]
        new_times[n + 2], new_weights[n + 2] = pack('<d', added_times[i]), pack('<d', added_weights[i])
        new_ids[n + 2] = id .. rep('\0', size - #id)
      end
      from = before_it
    end
    times, ids = concat(new_times), concat(new_ids)
    if weighted == 1 then weights = concat(new_weights) end
    times_at, weights_at, ids_at, held = 1, 1, 1, held + added
  end
  local ttl = lifetime((unpack('<d', times, times_at + 8 * (held - 1))))
  local state = pack('<dI4BB', clock, held, width, weighted) .. times .. weights .. ids
  call('SET', key, state, 'PX', ttl)
  -- Becomes a set, if the server's user may run the commands for that. ZADD writes nothing here.
  if held > small
    and find(pcall('ZADD', key, 0, 'e').err or '', 'WRONGTYPE', 1, true)
    and pcall('PEXPIRE', key, 0) == 1
  then
    local entries = { -1 - clock, 'c' }
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
    for i = 1, #entries, 1000 do
      call('ZADD', key, table_unpack(entries, i, min(i + 999, #entries)))
    end
    call('PEXPIRE', key, ttl)
  end
elseif operation ~= CANCEL then
  -- What the set receives: scores and members.
  local entries, has_weights = { -1 - at, 'c' }, false
  for i = 1, added do
    local name, weight = sub(added_ids[i], 2), added_weights[i]
    entries[#entries + 1], entries[#entries + 2] = added_times[i], 'e' .. name
    -- The id may have the weight of an event that no longer counts.
    if not moved and (weighted == 1 or weight ~= 1) then
      has_weights = true
      entries[#entries + 1], entries[#entries + 2] = -weight, 'w' .. name
    end
  end
  -- This read comes first, so that a user who may not run it changes nothing.
  local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), added_times[added]
  for i = 1, #last, 2 do
    if last[i] ~= moved then newest = max(newest, last[i + 1]) end
  end
  if has_weights and weighted == 0 then entries[#entries + 1], entries[#entries + 2] = -1, 'w' end
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
  for i = 1, #over, 100 do
    local last_of = min(i + 99, #over)
    if weighted == 1 then
      local of = {}
      for j = i, last_of do of[j - i + 1] = 'w' .. sub(over[j], 2) end
      call('ZREM', key, table_unpack(of))
    end
    call('ZREM', key, table_unpack(over, i, last_of))
  end
end
return pack('<bddddd', status, now, index or -1, bound or -1, free or -1, before or -1)
