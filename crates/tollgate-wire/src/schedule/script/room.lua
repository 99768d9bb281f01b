-- The events that a call adds, and whether there is room for them.

-- Returns the time to live of a key, if the last of its events is at `newest`: a millisecond more than
-- needed, because if a new one begins while PEXPIRE runs, a key of one millisecond is deleted at once.
local function lifetime(newest)
  return max(ceil((newest + retention + tolerance - now) / 1000) + slack, 0) + 1
end

-- The answer.
local status, index, bound, free = DONE, nil, nil, nil
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
    free, bound = search(weight, from)
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
  if status ~= DONE then index = order - 1 end
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
        first = skip(first + 1, own_times[nearest] - length)
      else
        -- The first event for which the window has no room.
        if view_sums then
          local most = view_sums[first - 1] + amount
          if stop < first then stop = first end
          if view_sums[stop] <= most then
            stop = stop + 1
            if view_sums[stop] <= most then stop = first_above(stop, most) end
          end
        else
          stop = first + amount
        end
        if stop > total then break end
        local oldest, newest = view_times[first], view_times[stop]
        if newest < oldest + length then
          -- Goes on without as many events of the call, from its end on, as are too many in it.
          local over, among, before = 0, {}, from_order
          local behind = after(oldest + length - 1)
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
          nearest, first, stop = 1, after(oldest - 1), 1
        else
          first = first + 1
          if view_times[first] <= newest - length then first = skip(first, newest - length) end
        end
      end
    end
  end
  if from_order < NEVER then return from_order end
end
