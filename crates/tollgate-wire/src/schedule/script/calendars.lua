-- Periods of calendars, and closed times.

-- The instant that no period of a calendar holds.
local uncovered
local find_period, weight_within, free_in_calendar
if periods_at then
  -- Returns the period of the calendar `q` that holds `time`, if the call brought it, and its place,
  -- or that of the first period after `time`. Tries the period at `place` first, if there is one, and
  -- then periods ever farther from it.
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
        place, step = max(high - step, floor((low + high) / 2)), 2 * step
      else
        return start, stop, place
      end
    end
    return nil, nil, low
  end

  -- Returns the first time from `time` whose period of the calendar `q` has room, or that is open.
  -- `cursors` keeps the period, its place, and the weight of its events.
  free_in_calendar = function(q, time, last, spare, cursors)
    local cursor, counts = cursors[q], quota[3 * q - 2] >= 0
    local start, stop, period, sum = cursor.start, cursor.stop, cursor.period, cursor.sum
    while time <= last do
      if not start or time >= stop then
        start, stop, period = find_period(q, time, period and period + 1 or not counts and 0)
        if start then
          sum = counts and weight_within(start, stop, 1) or spare
        elseif counts or period == 0 or period == quota[3 * q] then
          uncovered = uncovered or time
          return NEVER
        end
      end
      if not start then
        -- Closed: on to the next open time.
        start, stop = unpack('<dd', argument, periods_at[q] + 16 * period)
        time, sum = start, spare
      elseif sum <= spare then
        break
      else
        time = stop
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
