-- What changes packed events, and the chunks of the hash.

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

-- Gives packed ids of `size` bytes another size, for longer or shorter ones.
local function resize(packed, size, other)
  if size == other then return packed end
  local resized, zeros = {}, rep('\0', other - size)
  for at = 1, #packed, size do
    resized[#resized + 1] = sub(packed, at, at + min(size, other) - 1) .. zeros
  end
  return concat(resized)
end

local hash_of, id_at, up_to_hash, find_event, add_hashes, replace
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
  old_ids, size = resize(old_ids, size, longer), longer
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

  -- Adds an entry for each added event.
  add_hashes = function()
    local entries_of = {}
    for i = 1, added do
      local bytes, name = hash_field(hash_of(added_ids[i]))
      local new = entries_of[name] or {}
      new[#new + 1] = bytes .. pack('<d', added_times[i])
      entries_of[name] = new
    end
    for name, new in pairs(entries_of) do
      local hashes = is_hash and field(name) or ''
      local n = #hashes / HASHED
      local _, before = frexp(n)
      local _, after = frexp(n + #new)
      if before < after then
        -- At every power of two, entries of events that no longer count are left out.
        local kept = {}
        for at = 1, #hashes, HASHED do
          if unpack('<d', hashes, at + 4) > gone then kept[#kept + 1] = sub(hashes, at, at + HASHED - 1) end
        end
        hashes = concat(kept)
      end
      fields[name], changes[name] = hashes .. concat(new), true
    end
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
      local own_ids, longest = sub(new_ids, size * done + 1, size * (done + many)), size
      if many < n then
        -- The longest id may be in another chunk.
        longest = 0
        for at = 1, #own_ids, size do longest = max(longest, 1 + unpack('B', own_ids, at)) end
      end
      fields['i' .. number] = resize(own_ids, size, longest)
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
        left_ids, more_ids = resize(left_ids, size, longer), resize(more_ids, more_size, longer)
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
