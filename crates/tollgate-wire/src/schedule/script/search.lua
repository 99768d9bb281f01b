-- Searches a free time, and answers what changes nothing.

-- Searches for room for `weight` from `from` on. Returns the first free time, or nil, and the quota in
-- the way of the first time.
local function search(weight, from)
  if viewed ~= added then view(added_times, added_weights, added) end
  local times, sums, last = view_times, view_sums, latest
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
        free = free_in_calendar(q, free, last, spare, cursors)
      else
        local length = quota[3 * q - 1]
        local first, stop
        if alone then
          first = after(from - length)
          stop = first
        else
          first, stop = cursors[q].first, cursors[q].stop
        end
        while free <= last do
          local oldest = times[first]
          if oldest <= free - length then
            first = skip(first, free - length)
            oldest = times[first]
          end
          if oldest - length >= free then break end
          -- The last of the fewest events from `first` on that leave no room.
          if sums then
            local most = sums[first - 1] + spare
            if stop < first then stop = first end
            if sums[stop] <= most then
              stop = stop + 1
              if sums[stop] <= most then stop = first_above(stop, most) end
            end
          else
            stop = first + spare
          end
          if stop > total then break end
          -- They leave none at times within a window of all of them. What begins later ends later.
          local newest = times[stop]
          if newest - length >= free then break end
          first = first + 1
          if newest < oldest + length then
            free = oldest + length
          elseif times[first] <= newest - length then
            -- Events that begin a window before the newest one, or earlier, leave room, too.
            first = skip(first, newest - length)
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
  return time, in_the_way
end

-- Statuses of an answer, which has up to three numbers beside, -1 where there is none.
local DONE, QUOTA, PAST, BEYOND, TAKEN, UNKNOWN, UNCOVERED = 0, 1, 2, 3, 4, 5, 6
if operation == NEXT then
  local time, weight = unpack('<dd', argument, place)
  local free = search(weight, max(time, earliest))
  local status = uncovered and UNCOVERED or DONE
  return pack('<bdddd', status, now, -1, -1, uncovered or free or -1)
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
  local texts = { pack('<bdddd', DONE, now, max(after - first, 0), -1, next) }
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
