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
local operation, now, slack, tolerance, horizon, retention, small, most, quotas, count, place =
  unpack('<dddddddddd', argument)
local ADD, RESCHEDULE, CANCEL, NEXT, RESERVE, LIST = 1, 2, 3, 4, 5, 6
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
