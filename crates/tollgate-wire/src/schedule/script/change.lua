-- Plans, moves and cancels events, and writes what changed.

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
  status, index, bound, free = UNCOVERED, nil, nil, uncovered
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
    end
    added = held
    add_hashes()
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
      last = first - 1
    end
    add_hashes()
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
return pack('<bdddd', status, now, index or -1, bound or -1, free or -1)
