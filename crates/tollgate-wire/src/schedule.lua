-- Schedule: up to `small` events are a string, and more are a hash of chunks.
--
-- The string holds the events in the order of their times. It begins with the latest instant at which
-- an event was planned, the number of events, the longest length of an id, and whether there are
-- weights other than 1. The times follow, then the weights if there are such, then the ids: each as
-- one byte with its length, the id, and zeros up to the longest length.
--
-- In the hash, events of one time are in the order of the hashes of their ids. The field `c` holds the
-- same instant, number and flag for weights, and the number of the next chunk. The field `d` is the
-- directory of the chunks, in the order of their times: the number of events in each, then the first
-- time in each, the sum of its weights, its number, and the hash of its first id. A chunk has up to
-- `most` events, or fewer with long ids: the field `t` and its number hold their times, then the
-- weights if there are others than 1, and the field `i` and its number hold the ids, as in the string.
-- The fields `h` and a byte find events by their ids: for each id whose hash has this lowest byte, they
-- hold the hash, and the time of its event. Entries of events that were dropped may stay behind there.
local argument = ARGV[1]
local operation, now, slack, tolerance, horizon, retention, wants_latest, small, most, quotas, count,
  place = unpack('<ddddddddddd', argument)
local ADD, RESCHEDULE, CANCEL, NEXT, LATEST, RESERVE, LIST = 1, 2, 3, 4, 5, 6, 7
local NEVER = 9007199254740992
local AFTER_ALL = 2 * NEVER
-- A list ends with the first time after so many events.
local PAGE = 500
-- The most events that are read at once.
local PART = 512
-- The bytes of an entry of the directory, beside the two of its count, and of an entry of a hash.
local ENTRY, HASHED = 24, 12
-- The most bytes of a chunk's ids.
local LARGEST = 16384
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key = KEYS[1]

-- How many events there are.
local held = 0
local is_hash, clock, width, weighted = false, 0, 0, 0
-- In the hash: the field `c`, how many chunks there are, the number of the next one, the two parts of
-- the directory, and how many events come before each chunk, counting chunks from zero.
local header, chunks, next_number, counts, entries, starts = nil, 0, 0, '', '', { [0] = 0 }
-- The fields that have been read or changed, by name, and those of them that are to be written.
local fields, changes = {}, {}

local function garbled()
  error('data string too short')
end

-- Functions for the hash. What is not called costs least if it is not made.
local count_chunks, field, entry_of, chunk_times, chunk_ids, chunk_at, chunk_of
-- A server out of memory refuses a SET that is the first command of a script that may write. So what
-- cancels reads with such a command, which writes nothing without options.
local raw = pcall(operation == CANCEL and 'GETEX' or 'GET', key) or ''
if raw.err then
  if not find(raw.err, 'WRONGTYPE', 1, true) then return raw end
  is_hash = true

  -- Counts the events before each chunk.
  count_chunks = function()
    local sum = 0
    for first = 0, chunks - 1, PART do
      local many = min(PART, chunks - first)
      local some = { unpack('<' .. rep('I2', many), counts, 1 + 2 * first) }
      for i = 1, many do
        if some[i] == 0 then garbled() end
        sum = sum + some[i]
        starts[first + i] = sum
      end
    end
    return sum
  end

  -- Returns what a field of the hash holds.
  field = function(name)
    local value = fields[name]
    if not value then
      value = call('HGET', key, name)
      fields[name] = value
    end
    return value
  end

  -- Returns the number of the chunk, the number of its events, and the sum of their weights.
  entry_of = function(chunk)
    local _, sum, number = unpack('<ddI4', entries, ENTRY * chunk + 1)
    return number, starts[chunk + 1] - starts[chunk], sum
  end

  -- Returns the times of a chunk, with the weights after them if there are others than 1, how many events
  -- it has, and its number.
  chunk_times = function(chunk)
    local number, many = entry_of(chunk)
    local packed = field('t' .. number)
    if not packed or #packed ~= 8 * many and #packed ~= 16 * many then garbled() end
    return packed, many, number
  end

  -- Returns the ids of a chunk, and how many bytes each of them takes.
  chunk_ids = function(chunk)
    local number, many = entry_of(chunk)
    local packed = field('i' .. number)
    local size = packed and #packed / many or 0
    if size < 2 or size ~= floor(size) then garbled() end
    return packed, size
  end

  -- Returns the last chunk that begins with an event at `time` or before, or at this time with a hash up
  -- to `hash`, if there is one; or the first chunk.
  chunk_at = function(time, hash)
    local low, high = 1, chunks
    while low < high do
      local middle = floor((low + high) / 2)
      local first, _, _, of_first = unpack('<ddI4I4', entries, ENTRY * middle + 1)
      if first < time or first == time and (not hash or of_first <= hash) then
        low = middle + 1
      else
        high = middle
      end
    end
    return low - 1
  end

  -- Returns the chunk that holds the event with this index.
  chunk_of = function(index)
    local low, high = 1, chunks
    while low < high do
      local middle = floor((low + high) / 2)
      if starts[middle] <= index then low = middle + 1 else high = middle end
    end
    return low - 1
  end

  local head = call('HMGET', key, 'c', 'd')
  header = head[1]
  if not header or not head[2] then garbled() end
  clock, held, weighted, next_number = unpack('<dI4BI4', header)
  chunks = #head[2] / (2 + ENTRY)
  counts, entries = sub(head[2], 1, 2 * chunks), sub(head[2], 2 * chunks + 1)
  if chunks ~= floor(chunks) or held == 0 or count_chunks() ~= held then garbled() end
elseif raw ~= '' then
  clock, held, width, weighted = unpack('<dI4BB', raw)
  if weighted > 1 or #raw ~= 14 + held * (9 + 8 * weighted + width) then garbled() end
end
-- In the string, each of them from a place on.
local times, times_at = raw, 15
local weights, weights_at = '', 15 + 8 * held
if weighted == 1 then weights = raw end
local ids, ids_at = raw, 15 + 8 * held * (1 + weighted)
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

-- Returns how many of the `many` times from place `at` on in a string are not after `time`.
local function up_to(time, packed, at, many)
  local low, high = 0, many
  while low < high do
    local middle = floor((low + high) / 2)
    if unpack('<d', packed, at + 8 * middle) <= time then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Returns the index of the first event after `time`.
local function first_after(time)
  if not is_hash then return up_to(time, times, times_at, held) end
  if chunks == 0 then return 0 end
  local chunk = chunk_at(time)
  -- The first time is in the directory.
  if unpack('<d', entries, ENTRY * chunk + 1) > time then return starts[chunk] end
  local packed, many = chunk_times(chunk)
  return starts[chunk] + up_to(time, packed, 1, many)
end

-- Of the events from `index` on, up to `many`, returns those that are packed together: how many, the
-- string with their times and the place of the first, and the same of their weights, without a string
-- if all are 1.
local function packed_from(index, many)
  many = min(many, PART)
  if not is_hash then
    return many, times, times_at + 8 * index, weighted == 1 and weights, weights_at + 8 * index
  end
  local chunk = chunk_of(index)
  local packed, size = chunk_times(chunk)
  local before = index - starts[chunk]
  local heavy = #packed > 8 * size and packed
  return min(many, size - before), packed, 1 + 8 * before, heavy, 1 + 8 * (size + before)
end

-- The times of all events, and how much the events up to each weigh together, once all are read. A
-- calendar with many periods reads them once.
local all_times, all_sums

-- How many events of a string are read at once.
local BLOCK = 64
-- How much the events before each chunk or block weigh together, if not all weigh 1.
local sums_before

-- Returns how much the events before those of a chunk or a block weigh together: the first `n`.
local function sum_before(n)
  if weighted == 0 or n == 0 then return n end
  if not sums_before then
    local sum = 0
    sums_before = {}
    for chunk = 0, chunks - 1 do
      local _, _, of_chunk = entry_of(chunk)
      sum = sum + of_chunk
      sums_before[starts[chunk + 1]] = sum
    end
    for i = 1, is_hash and 0 or held do
      sum = sum + unpack('<d', weights, weights_at + 8 * i - 8)
      if i % BLOCK == 0 or i == held then sums_before[i] = sum end
    end
  end
  return sums_before[n]
end

-- What has been unpacked of a chunk or a block, by the index of its first event.
local unpacked_times, unpacked_weights = {}, {}

-- Returns the times and, if not all are 1, the weights of a chunk or a block.
local function numbers_from(from, to)
  local found, heavy = unpacked_times[from], unpacked_weights[from]
  if not found then
    local some, packed, at, packed_weights, weights_from = packed_from(from, to - from)
    local format = '<' .. rep('d', some)
    found = { unpack(format, packed, at) }
    if packed_weights then heavy = { unpack(format, packed_weights, weights_from) } end
    unpacked_times[from], unpacked_weights[from] = found, heavy
  end
  return found, heavy
end

-- How many held events are not after an event of the call, by its time.
local places_of = {}

-- All held events with the first `viewed` ones of the call: a table of their times; one of how much all
-- up to each weigh together, if not all weigh 1; how many there are; how much they weigh together; and
-- of the events of the call, their times, and the number of held events that are not after each; and
-- whether all have been read. If not, the tables read what they do not hold yet. What is beyond either
-- end is farther away than any window, and too heavy for any.
local view_times, view_sums, total, all, own_times, places, viewed, is_read

-- Prepares these tables, with the `own` events of the call that are given.
local function view(times_of_own, own_weights, own)
  viewed, total, own_times, places = own, held + own, times_of_own, {}
  view_sums = nil
  is_read = held == 0 or not is_hash and held <= BLOCK
  if own == 0 and held > 0 and is_read then
    local format = '<' .. rep('d', held)
    view_times = { unpack(format, times, times_at) }
    view_times[0], view_times[held + 1] = -AFTER_ALL, AFTER_ALL
    if weighted == 1 then
      view_sums = { unpack(format, weights, weights_at) }
      view_sums[-1], view_sums[0], view_sums[held + 1] = -AFTER_ALL, 0, AFTER_ALL
      for i = 1, held do view_sums[i] = view_sums[i - 1] + view_sums[i] end
      all = view_sums[held]
    end
    return
  end
  view_times = { [0] = -AFTER_ALL, [total + 1] = AFTER_ALL }
  local own_sums = { [0] = 0 }
  for j = 1, own do
    local time = own_times[j]
    places_of[time] = places_of[time] or first_after(time)
    places[j], own_sums[j] = places_of[time], own_sums[j - 1] + own_weights[j]
  end
  if weighted == 1 or own_sums[own] > own then
    all = sum_before(held) + own_sums[own]
    view_sums = { [-1] = -AFTER_ALL, [0] = 0, [total + 1] = AFTER_ALL }
  end
  local times, sums, places = view_times, view_sums, places

  -- Reads the held events from the index `from` until before `to`, and those of the call among them.
  local function fill(from, to)
    local found, heavy
    if from < to then found, heavy = numbers_from(from, to) end
    local k = 0
    while k < own and places[k + 1] < from do k = k + 1 end
    local sum = sums and sum_before(from) + own_sums[k]
    local x = from
    repeat
      while k < own and places[k + 1] <= x and (x < to or to == held) do
        k = k + 1
        times[x + k] = own_times[k]
        if sums then
          sum = sum + own_weights[k]
          sums[x + k] = sum
        end
      end
      local stop = to
      if k < own then stop = min(stop, max(places[k + 1], x)) end
      for y = x + 1, stop do times[y + k] = found[y - from] end
      if sums then
        for y = x + 1, stop do
          sum = sum + (heavy and heavy[y - from] or 1)
          sums[y + k] = sum
        end
      end
      local is_done = x == to
      x = stop
    until is_done
  end

  if is_read then
    fill(0, held)
    return
  end

  -- Reads the events around a place, and returns what one of the tables holds there.
  local function read(of, place)
    local k = 0
    while k < own and places[k + 1] + k < place do k = k + 1 end
    local index = place - k - 1
    if k > 0 and places[k] + k == place then index = min(places[k], held - 1) end
    if is_hash then
      local chunk = chunk_of(index)
      fill(starts[chunk], starts[chunk + 1])
    else
      local from = index - index % BLOCK
      fill(from, min(from + BLOCK, held))
    end
    return rawget(of, place)
  end
  setmetatable(times, { __index = read })
  if sums then setmetatable(sums, { __index = read }) end
end

-- Returns the place in the order of a search of the first event after `time`.
local function after(sign, time)
  if sign == -1 then time = -time - 1 end
  local n
  if is_read then
    n = 0
    local high = total
    while n < high do
      local middle = floor((n + high) / 2)
      if view_times[middle + 1] <= time then n = middle + 1 else high = middle end
    end
  else
    n = first_after(time)
    for j = 1, viewed do
      if own_times[j] <= time then n = n + 1 end
    end
  end
  if sign == 1 then return n + 1 end
  return total + 1 - n
end

-- Returns the first place from `place` on whose time is after `time`.
local function skip(sign, place, time)
  local base = sign == 1 and 0 or total + 1
  for i = place, place + 64 do
    if sign * view_times[base + sign * i] > time then return i end
  end
  -- Never back, whatever another program has written.
  return max(after(sign, time), place)
end

-- Returns the first place after `place` up to which the events weigh more than `sum` together.
local function first_above(sign, place, sum)
  local function sum_to(sign, place)
    if sign == 1 then return view_sums[place] end
    return all - view_sums[total - place]
  end
  local step = 1
  while place + step <= total and sum_to(sign, place + step) <= sum do
    place, step = place + step, 2 * step
  end
  local low, high = place + 1, min(place + step, total + 1)
  while low < high do
    local middle = floor((low + high) / 2)
    if sum_to(sign, middle) <= sum then low = middle + 1 else high = middle end
  end
  return low
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
  -- Reads all events. Entries before the first and behind the last end a walk through them.
  local function read_all()
    local n, sum = 0, 0
    all_times, all_sums = { [0] = -1 }, weighted == 1 and { [0] = 0 } or nil
    while n < held do
      local some, packed, at, heavy, heavy_at = packed_from(n, held - n)
      local format = '<' .. rep('d', some)
      local found = { unpack(format, packed, at) }
      for i = 1, some do all_times[n + i] = found[i] end
      if all_sums then
        if heavy then found = { unpack(format, heavy, heavy_at) } end
        for i = 1, some do
          sum = sum + (heavy and found[i] or 1)
          all_sums[n + i] = sum
        end
      end
      n = n + some
    end
    all_times[held + 1] = AFTER_ALL
  end

  -- Returns the weight of the held events from `start` until before `stop`, and about how many events
  -- could have been read in the same time.
  local function look_up(start, stop)
    local first, after = first_after(start - 1), first_after(stop - 1)
    if weighted == 0 then return after - first, 8 end
    local sum, looks = 0, 24
    while first < after do
      local chunk = is_hash and chunk_of(first)
      if chunk and starts[chunk] == first and starts[chunk + 1] <= after then
        local _, many, of_chunk = entry_of(chunk)
        sum, first, looks = sum + of_chunk, first + many, looks + 1
      else
        local some, _, _, heavy, from = packed_from(first, after - first)
        local found = heavy and { unpack('<' .. rep('d', some), heavy, from) }
        for i = 1, some do sum = sum + (found and found[i] or 1) end
        first, looks = first + some, looks + 2 * some
      end
    end
    return sum, looks
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
  if viewed ~= added then view(added_times, added_weights, added) end
  local times, sums, base, origin, offset = view_times, view_sums, 0, 0, 0
  if sign == -1 then base, origin, offset = total + 1, total, all end
  from, last = sign * from, sign * last
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
          first = after(sign, from - length)
          stop = first
        else
          first, stop = cursors[q].first, cursors[q].stop
        end
        while free <= last do
          local oldest = sign * times[base + sign * first]
          if oldest <= free - length then
            first = skip(sign, first, free - length)
            oldest = sign * times[base + sign * first]
          end
          if oldest - length >= free then break end
          -- The last of the fewest events from `first` on that leave no room.
          if sums then
            local most = offset + sign * sums[origin + sign * (first - 1)] + spare
            if stop < first then stop = first end
            if offset + sign * sums[origin + sign * stop] <= most then
              stop = stop + 1
              if offset + sign * sums[origin + sign * stop] <= most then
                stop = first_above(sign, stop, most)
              end
            end
          else
            stop = first + spare
          end
          if stop > total then break end
          -- They leave none at times within a window of all of them. What begins later ends later.
          local newest = sign * times[base + sign * stop]
          if newest - length >= free then break end
          first = first + 1
          if newest < oldest + length then
            free = oldest + length
          elseif sign * times[base + sign * first] <= newest - length then
            -- Events that begin a window before the newest one, or earlier, leave room, too.
            first = skip(sign, first, newest - length)
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
    local _, packed, from = packed_from(first + PAGE - 1, 1)
    local last = unpack('<d', packed, from)
    local page = first_after(last)
    if page < after then after, next = page, last + 1 end
  end
  local texts = { pack('<bddddd', DONE, now, max(after - first, 0), -1, next, -1) }
  while first < after do
    local some, packed, from, heavy, heavy_from = packed_from(first, after - first)
    local packed_ids, size, ids_from = ids, 1 + width, ids_at + (1 + width) * first
    if is_hash then
      local chunk = chunk_of(first)
      packed_ids, size = chunk_ids(chunk)
      ids_from = 1 + size * (first - starts[chunk])
    end
    for i = 0, some - 1 do
      local at_id = ids_from + size * i
      local id = sub(packed_ids, at_id + 1, at_id + unpack('B', packed_ids, at_id))
      local weight = heavy and unpack('<d', heavy, heavy_from + 8 * i) or 1
      texts[#texts + 1] = pack('<ddd', unpack('<d', packed, from + 8 * i), weight, #id) .. id
    end
    first = first + some
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

if operation ~= CANCEL and not is_hash and held > 0 and unpack('<d', times, times_at) <= gone then
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

  -- Those of them that have room so far.
  local own_weights, orders
  local function keep()
    local own, kept_times = 0, {}
    own_weights, orders = {}, {}
    for i = 1, added do
      if added_orders[i] < from_order then
        own = own + 1
        kept_times[own], own_weights[own] = added_times[i], added_weights[i]
        orders[own] = added_orders[i]
      end
    end
    view(kept_times, own_weights, own)
  end
  if reach > 0 then keep() end
  for q = 1, quotas do
    local amount, length = quota[3 * q - 2], quota[3 * q - 1]
    -- A window begins with the event `first`, and holds the one of the call at `nearest`, if that is
    -- not too far away.
    local first, stop, nearest = 1, 1, 1
    while quota[3 * q] == 0 and nearest <= viewed do
      if places[nearest] + nearest < first then
        nearest = nearest + 1
      elseif view_times[first] <= own_times[nearest] - length then
        first = skip(1, first + 1, own_times[nearest] - length)
      else
        -- The first event for which the window has no room.
        if view_sums then
          local most = view_sums[first - 1] + amount
          if stop < first then stop = first end
          if view_sums[stop] <= most then
            stop = stop + 1
            if view_sums[stop] <= most then stop = first_above(1, stop, most) end
          end
        else
          stop = first + amount
        end
        if stop > total then break end
        local oldest, newest = view_times[first], view_times[stop]
        if newest < oldest + length then
          -- Goes on without as many events of the call, from its end on, as are too many in it.
          local over, among, before = 0, {}, from_order
          local behind = after(1, oldest + length - 1)
          if view_sums then
            over = view_sums[behind - 1] - view_sums[first - 1] - amount
          else
            over = behind - first - amount
          end
          for i = nearest, viewed do
            if own_times[i] < oldest + length then among[#among + 1] = i end
          end
          sort(among, function(a, b) return orders[a] > orders[b] end)
          for i = 1, #among do
            if over > 0 then
              over, from_order = over - own_weights[among[i]], orders[among[i]]
            end
          end
          if from_order == before then garbled() end
          keep()
          nearest, first, stop = 1, after(1, oldest - 1), 1
        else
          first = first + 1
          if view_times[first] <= newest - length then first = skip(1, first, newest - length) end
        end
      end
    end
  end
  if from_order < NEVER then return from_order end
end

-- Returns the place of `id`, with the length before it, among packed ids of `size` bytes each, from a
-- place on.
local function place_of(id, packed, size, from)
  if #id > size then return end
  local at = from
  repeat
    at = find(packed, id, at, true)
    if not at then return end
    local i = (at - from) / size
    if i == floor(i) then return i end
    at = at + 1
  until false
end

-- Gives packed ids the length of longer ones.
local function widen(packed, size, longer)
  if size >= longer or packed == '' then return packed end
  local wider, zeros = {}, rep('\0', longer - size)
  for at = 1, #packed, size do wider[#wider + 1] = sub(packed, at, at + size - 1) .. zeros end
  return concat(wider)
end

local hash_of, id_at, up_to_hash, find_event, add_hash, replace
local chunk_without, take_out, sort_added, changed_fields, call_with

-- Merges the added events from the place `first` to `last` into the `n` events that these strings hold:
-- behind all of one time, or by their hashes.
local function merge_added(first, last, old_times, old_weights, old_ids, n, size, by_hash)
  -- All ids get the length of the longest.
  local longer, has_weights = size, old_weights ~= ''
  for i = first, last do
    longer = max(longer, #added_ids[i])
    has_weights = has_weights or added_weights[i] ~= 1
  end
  old_ids, size = widen(old_ids, size, longer), longer
  if has_weights and old_weights == '' then old_weights = rep(pack('<d', 1), n) end
  local new_times, new_weights, new_ids = {}, {}, {}
  local from = 0
  for i = first, last + 1 do
    local before_it = n
    if i <= last and by_hash then
      before_it = up_to_hash(added_times[i], hash_of(added_ids[i]), old_times, old_ids, size, n)
    elseif i <= last then
      before_it = up_to(added_times[i], old_times, 1, n)
    end
    local at = #new_times
    new_times[at + 1] = sub(old_times, 8 * from + 1, 8 * before_it)
    new_weights[at + 1] = sub(old_weights, 8 * from + 1, 8 * before_it)
    new_ids[at + 1] = sub(old_ids, size * from + 1, size * before_it)
    if i <= last then
      local id = added_ids[i]
      new_times[at + 2] = pack('<d', added_times[i])
      new_weights[at + 2] = has_weights and pack('<d', added_weights[i]) or ''
      new_ids[at + 2] = id .. rep('\0', size - #id)
    end
    from = before_it
  end
  return concat(new_times), concat(new_weights), concat(new_ids), n + last - first + 1, size
end

if is_hash or held + count > small then
  -- The hashes that have been computed.
  local hashes_of = {}

  -- Returns the hash of an id, with the length before it.
  hash_of = function(id)
    local hash = hashes_of[id]
    if not hash then
      hash = tonumber(sub(sha1hex(id), 1, 8), 16)
      hashes_of[id] = hash
    end
    return hash
  end

  -- Returns the bytes of a hash, and the field with the entries of those that begin alike.
  local function hash_field(hash)
    return pack('<I4', hash), pack('<c1B', 'h', hash % 256)
  end

  -- Returns the first id of packed ids, from a place on, with the length before it.
  id_at = function(packed, at)
    return sub(packed, at, at + unpack('B', packed, at))
  end

  -- Of the `n` events of a chunk, returns how many are not after one at `time` with this hash.
  up_to_hash = function(time, hash, packed, packed_ids, size, n)
    local low, high = up_to(time - 1, packed, 1, n), up_to(time, packed, 1, n)
    while low < high do
      local middle = floor((low + high) / 2)
      if hash_of(id_at(packed_ids, 1 + size * middle)) <= hash then
        low = middle + 1
      else
        high = middle
      end
    end
    return low
  end

  -- In the hash, returns the chunk with the event of `id`, its place in it, its time and its weight.
  find_event = function(id)
    local hash = hash_of(id)
    local bytes, name = hash_field(hash)
    local hashes, from = field(name), 1
    while hashes do
      local at = find(hashes, bytes, from, true)
      if not at then return end
      if (at - 1) % HASHED == 0 then
        local time = unpack('<d', hashes, at + 4)
        local chunk, is_earlier = chunk_at(time, hash), true
        while chunk >= 0 and is_earlier do
          local packed, n = chunk_times(chunk)
          local packed_ids, size = chunk_ids(chunk)
          local first = up_to(time - 1, packed, 1, n)
          local i = place_of(id, packed_ids, size, 1 + size * first)
          if i and unpack('<d', packed, 1 + 8 * (first + i)) == time then
            local heavy = #packed > 8 * n and unpack('<d', packed, 1 + 8 * (n + first + i))
            return chunk, first + i, time, heavy or 1
          end
          -- Another id may have the same hash.
          local first_time, _, _, first_hash = unpack('<ddI4I4', entries, ENTRY * chunk + 1)
          is_earlier = first_time == time and first_hash == hash
          chunk = chunk - 1
        end
      end
      from = at + 1
    end
  end

  -- Adds an entry for the event of `id` at `time`.
  add_hash = function(id, time)
    local bytes, name = hash_field(hash_of(id))
    local hashes = is_hash and field(name) or fields[name] or ''
    if #hashes > 0 and #hashes % (128 * HASHED) == 0 then
      -- Entries of events that no longer count are left out from time to time.
      local kept = {}
      for at = 1, #hashes, HASHED do
        if unpack('<d', hashes, at + 4) > gone then kept[#kept + 1] = sub(hashes, at, at + HASHED - 1) end
      end
      hashes = concat(kept)
    end
    fields[name], changes[name] = hashes .. bytes .. pack('<d', time), true
  end

  -- Drops the entry for the event of `id` at `time`.
  local function drop_hash(id, time)
    local bytes, name = hash_field(hash_of(id))
    local hashes, entry, at = field(name) or '', bytes .. pack('<d', time), 0
    repeat
      at = find(hashes, entry, at + 1, true)
    until not at or (at - 1) % HASHED == 0
    if at then
      fields[name], changes[name] = sub(hashes, 1, at - 1) .. sub(hashes, at + HASHED), true
    end
  end

  -- Returns the most events of a chunk whose ids take `size` bytes each.
  local function most_of(size)
    return max(min(most, floor(LARGEST / size)), 1)
  end

  -- Replaces `some` chunks from `chunk` on with the `n` events that these strings hold. The weights may
  -- be empty. If they are `appended`, chunks are made full, because more are likely to follow.
  replace = function(chunk, some, new_times, new_weights, new_ids, n, appended)
    local numbers = {}
    for i = 1, some do
      local number = entry_of(chunk + i - 1)
      numbers[i] = number
      fields['t' .. number], fields['i' .. number] = '', ''
      changes['t' .. number], changes['i' .. number] = true, true
    end
    local size, done = n > 0 and #new_ids / n, 0
    local new_counts, new_entries, more = {}, {}, 0
    while done < n do
      local many = min(most_of(size), n - done)
      if not appended then many = ceil((n - done) / ceil((n - done) / most_of(size))) end
      more = more + 1
      local number = numbers[more]
      if not number then number, next_number = next_number, next_number + 1 end
      local own_times = sub(new_times, 8 * done + 1, 8 * (done + many))
      local own_weights, sum = sub(new_weights, 8 * done + 1, 8 * (done + many)), many
      if own_weights == rep(pack('<d', 1), many) then own_weights = '' end
      if own_weights ~= '' then
        sum = 0
        for i = 0, many - 1 do sum = sum + unpack('<d', own_weights, 8 * i + 1) end
      end
      fields['t' .. number] = own_times .. own_weights
      fields['i' .. number] = sub(new_ids, size * done + 1, size * (done + many))
      changes['t' .. number], changes['i' .. number] = true, true
      new_counts[more] = pack('<I2', many)
      local hash = hash_of(id_at(new_ids, size * done + 1))
      new_entries[more] = pack('<ddI4I4', unpack('<d', own_times), sum, number, hash)
      done = done + many
    end
    counts = sub(counts, 1, 2 * chunk) .. concat(new_counts) .. sub(counts, 2 * (chunk + some) + 1)
    entries = sub(entries, 1, ENTRY * chunk) .. concat(new_entries)
      .. sub(entries, ENTRY * (chunk + some) + 1)
    chunks = chunks + more - some
  end

  -- Returns the times, weights and ids of a chunk, without the `many` after the first `before`, and how
  -- many are left.
  chunk_without = function(chunk, before, many)
    local packed, n = chunk_times(chunk)
    local packed_ids, size = chunk_ids(chunk)
    if many == 0 then return sub(packed, 1, 8 * n), sub(packed, 8 * n + 1), packed_ids, n, size end
    local left_times = sub(packed, 1, 8 * before) .. sub(packed, 8 * (before + many) + 1, 8 * n)
    local left_weights = ''
    if #packed > 8 * n then
      left_weights = sub(packed, 8 * n + 1, 8 * (n + before)) .. sub(packed, 8 * (n + before + many) + 1)
    end
    local left_ids = sub(packed_ids, 1, size * before) .. sub(packed_ids, size * (before + many) + 1)
    return left_times, left_weights, left_ids, n - many, size
  end

  -- Takes the event out of a chunk of the hash. If few are left, a chunk beside takes them in.
  take_out = function(chunk, before, id, time)
    drop_hash(id, time)
    local left_times, left_weights, left_ids, n, size = chunk_without(chunk, before, 1)
    local some = 1
    for _, beside in ipairs({ chunk + 1, chunk - 1 }) do
      if n > 0 and some == 1 and beside >= 0 and beside < chunks
        and n + starts[beside + 1] - starts[beside] <= most_of(size) / 2
      then
        local more_times, more_weights, more_ids, more, more_size = chunk_without(beside, 0, 0)
        local longer = max(size, more_size)
        left_ids, more_ids = widen(left_ids, size, longer), widen(more_ids, more_size, longer)
        if left_weights ~= more_weights then
          if left_weights == '' then left_weights = rep(pack('<d', 1), n) end
          if more_weights == '' then more_weights = rep(pack('<d', 1), more) end
        end
        if beside < chunk then
          chunk = beside
          left_times, left_weights, left_ids =
            more_times .. left_times, more_weights .. left_weights, more_ids .. left_ids
        else
          left_times, left_weights, left_ids =
            left_times .. more_times, left_weights .. more_weights, left_ids .. more_ids
        end
        n, some = n + more, 2
      end
    end
    replace(chunk, some, left_times, left_weights, left_ids, n)
    held = held - 1
    count_chunks()
  end

  -- Sorts the added events by their times and the hashes of their ids.
  sort_added = function()
    local order, old_times, old_weights, old_ids = {}, added_times, added_weights, added_ids
    for i = 1, added do order[i] = i end
    sort(order, function(a, b)
      if old_times[a] ~= old_times[b] then return old_times[a] < old_times[b] end
      return hash_of(old_ids[a]) < hash_of(old_ids[b])
    end)
    added_times, added_weights, added_ids = {}, {}, {}
    for i = 1, added do
      local from = order[i]
      added_times[i], added_weights[i], added_ids[i] = old_times[from], old_weights[from], old_ids[from]
    end
  end

  -- Returns the names of changed fields to drop, and the names and values of those to set.
  changed_fields = function()
    fields.c, fields.d = pack('<dI4BI4', clock, held, weighted, next_number), counts .. entries
    changes.c, changes.d = true, true
    local dropped, set = {}, {}
    for name in pairs(changes) do
      local value = fields[name]
      if value == '' then
        dropped[#dropped + 1] = name
      else
        set[#set + 1], set[#set + 2] = name, value
      end
    end
    return dropped, set
  end

  -- Runs a command of the hash with these words.
  call_with = function(command, words)
    for i = 1, #words, 1000 do
      call(command, key, table_unpack(words, i, min(i + 999, #words)))
    end
  end
end

-- In the string, the places of all ids, for the events of a call that adds many.
local places_of_ids
if count > 1 and not is_hash then
  places_of_ids = {}
  for i = 0, held - 1 do
    local at = ids_at + (1 + width) * i
    places_of_ids[sub(ids, at, at + unpack('B', ids, at))] = i
  end
end

-- The time of the event that is cancelled or moved.
local removed = 0
-- The place of the first event that cannot take place at its own time, whatever is held.
local outside
for e = 1, count do
  local time, weight, length
  time, weight, length, place = unpack('<ddB', argument, place)
  -- The length and the id, as in the string.
  local id = sub(argument, place - 1, place + length - 1)
  place = place + length

  -- The event with this id, if it still counts.
  local found, chunk, planned, planned_weight
  if is_hash then
    chunk, found, planned, planned_weight = find_event(id)
  elseif places_of_ids then
    found = places_of_ids[id]
  else
    found = place_of(id, ids, 1 + width, ids_at)
  end
  if found and not is_hash then
    planned, planned_weight = unpack('<d', times, times_at + 8 * found), 1
    if weighted == 1 then planned_weight = unpack('<d', weights, weights_at + 8 * found) end
  end
  found = found and planned > gone and found

  if operation == CANCEL or operation == RESCHEDULE then
    if not found then
      if operation == RESCHEDULE then status = UNKNOWN end
    elseif operation == RESCHEDULE and planned == time then
      free = time
    else
      -- Takes the event out. Its old time does not stand in its own way.
      changed = 1
      if is_hash then
        take_out(chunk, found, id, planned)
        removed = planned
      else
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
elseif held + added == 0 and not is_hash then
  -- An expiry in the past deletes the key.
  call('GETEX', key, 'PXAT', 1)
elseif held + added == 0 then
  call('PEXPIRE', key, 0)
elseif not is_hash then
  if operation ~= CANCEL then clock = at end
  times = sub(times, times_at, times_at + 8 * held - 1)
  weights = weighted == 1 and sub(weights, weights_at, weights_at + 8 * held - 1) or ''
  ids = sub(ids, ids_at, ids_at + (1 + width) * held - 1)
  if added > 0 then
    local size
    times, weights, ids, held, size = merge_added(1, added, times, weights, ids, held, 1 + width)
    width = size - 1
    weighted = weights ~= '' and 1 or 0
  end
  local ttl = lifetime((unpack('<d', times, 8 * held - 7)))
  local state = pack('<dI4BB', clock, held, width, weighted) .. times .. weights .. ids
  call('SET', key, state, 'PX', ttl)
  -- Becomes a hash, if the server's user may run the commands for that. HSET writes nothing here.
  if held > small
    and find(pcall('HSET', key, 'c', '').err or '', 'WRONGTYPE', 1, true)
    and pcall('PEXPIRE', key, 0) == 1
  then
    for i = 1, held do
      added_ids[i] = id_at(ids, 1 + (1 + width) * (i - 1))
      added_times[i] = unpack('<d', times, 8 * i - 7)
      added_weights[i] = weighted == 1 and unpack('<d', weights, 8 * i - 7) or 1
      add_hash(added_ids[i], added_times[i])
    end
    added = held
    sort_added()
    replace(0, 0, merge_added(1, held, '', '', '', 0, 2, true))
    local _, set = changed_fields()
    call_with('HSET', set)
    call('PEXPIRE', key, ttl)
  end
else
  local newest = 0
  if chunks > 0 then
    local packed, n = chunk_times(chunks - 1)
    newest = unpack('<d', packed, 8 * n - 7)
  end
  if operation ~= CANCEL then
    clock, newest = at, max(newest, added_times[added])
    if heavy_added then weighted = 1 end
    -- Drops the events that no longer count.
    local over = 0
    while over + 1 < chunks and unpack('<d', entries, ENTRY * (over + 1) + 1) <= gone do
      over = over + 1
    end
    if chunks > 0 and unpack('<d', entries, ENTRY * over + 1) <= gone then
      local packed, n = chunk_times(over)
      local many = up_to(gone, packed, 1, n)
      held = held - starts[over] - many
      replace(0, over + 1, chunk_without(over, 0, many))
      count_chunks()
    end
    -- The last ones first, so that what is known of the chunks before them stays right.
    sort_added()
    local function chunk_for(i) return chunk_at(added_times[i], hash_of(added_ids[i])) end
    local last = added
    while last > 0 do
      local chunk, first = chunk_for(last), last
      while first > 1 and chunk_for(first - 1) == chunk do first = first - 1 end
      if chunks == 0 then
        replace(0, 0, merge_added(first, last, '', '', '', 0, 2, true))
      else
        local old_times, old_weights, old_ids, n, size = chunk_without(chunk, 0, 0)
        local appended = chunk == chunks - 1 and added_times[first] > unpack('<d', old_times, 8 * n - 7)
        local new_times, new_weights, new_ids, more =
          merge_added(first, last, old_times, old_weights, old_ids, n, size, true)
        replace(chunk, 1, new_times, new_weights, new_ids, more, appended)
      end
      for i = first, last do add_hash(added_ids[i], added_times[i]) end
      last = first - 1
    end
    held = held + added
  end
  local dropped, set = changed_fields()
  -- Before anything changes, each of these commands is run once, so that a user who may not run one of
  -- them changes no event. The TTL suits the events before and after. A server out of memory refuses
  -- the first command if it is HSET, which must not be so for what cancels.
  local ttl = lifetime(max(newest, removed))
  if operation == CANCEL then call('PEXPIRE', key, ttl) end
  call('HSET', key, 'c', header)
  if operation ~= CANCEL then call('PEXPIRE', key, ttl) end
  call_with('HDEL', dropped)
  call_with('HSET', set)
  if newest < removed then call('PEXPIRE', key, lifetime(newest)) end
end
return pack('<bddddd', status, now, index or -1, bound or -1, free or -1, before or -1)
