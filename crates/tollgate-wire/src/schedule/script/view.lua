-- The events that a search looks at, in the order of their times.

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
-- up to each weigh together, if not all weigh 1; how many there are; of the events of the call, their
-- times, and the number of held events that are not after each; and whether all have been read. If not,
-- the tables read what they do not hold yet. What is behind the last event is farther away than any
-- window, and too heavy for any.
local view_times, view_sums, total, own_times, places, viewed, is_read

-- Prepares these tables, with the `own` events of the call that are given.
local function view(times_of_own, own_weights, own)
  viewed, total, own_times, places = own, held + own, times_of_own, {}
  view_sums = nil
  is_read = held == 0 or not is_hash and held <= BLOCK
  if own == 0 and held > 0 and is_read then
    local format = '<' .. rep('d', held)
    view_times = { unpack(format, times, times_at) }
    view_times[held + 1] = AFTER_ALL
    if weighted == 1 then
      view_sums = { unpack(format, weights, weights_at) }
      view_sums[0], view_sums[held + 1] = 0, AFTER_ALL
      for i = 1, held do view_sums[i] = view_sums[i - 1] + view_sums[i] end
    end
    return
  end
  view_times = { [total + 1] = AFTER_ALL }
  local own_sums = { [0] = 0 }
  for j = 1, own do
    local time = own_times[j]
    places_of[time] = places_of[time] or first_after(time)
    places[j], own_sums[j] = places_of[time], own_sums[j - 1] + own_weights[j]
  end
  if weighted == 1 or own_sums[own] > own then
    view_sums = { [0] = 0, [total + 1] = AFTER_ALL }
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
    return rawget(of, place) or garbled()
  end
  setmetatable(times, { __index = read })
  if sums then setmetatable(sums, { __index = read }) end
end

-- Returns the place of the first event after `time`.
local function after(time)
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
  return n + 1
end

-- Returns the first place from `place` on whose time is after `time`.
local function skip(place, time)
  for i = place, place + 64 do
    if view_times[i] > time then return i end
  end
  -- Never back, whatever another program has written.
  return max(after(time), place)
end

-- Returns the first place after `place` up to which the events weigh more than `sum` together.
local function first_above(place, sum)
  local step = 1
  while place + step <= total and view_sums[place + step] <= sum do
    place, step = place + step, 2 * step
  end
  local low, high = place + 1, min(place + step, total + 1)
  while low < high do
    local middle = floor((low + high) / 2)
    if view_sums[middle] <= sum then low = middle + 1 else high = middle end
  end
  return low
end
