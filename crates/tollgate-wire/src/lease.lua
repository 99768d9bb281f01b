-- Leases: a string. It begins with the latest instant at which a lease was acquired or renewed, the
-- latest token, and the weight of all records. A record has 34 bytes: 16 that stand for the id of a
-- lease, its end, its token and its weight. Records are in the order of their ends.
local argument = ARGV[1]
local operation, now, slack, ttl, amount, weight, token = unpack('<ddddddd', argument)
local ACQUIRE, RELEASE, PEEK = 1, 3, 4
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key, id = KEYS[1], sub(argument, 57)
-- A server out of memory refuses a SET that is the first command of a script that may write. So a
-- release reads with such a command, which writes nothing without options.
local raw = call(operation == RELEASE and 'GETEX' or 'GET', key) or rep('\0', 24)
local clock, last_token, total = unpack('<ddd', raw)
local count, first, last = (#raw - 24) / 34, 1 / 0, 0
if count ~= floor(count) or not (total >= count and total <= 65535 * count) then
  -- Another program's. The error is that of a string of less than three numbers.
  error('data string too short')
end
if count > 0 then first, last = unpack('<d', raw, 41), unpack('<d', raw, #raw - 17) end
local at = max(now, clock)

-- Returns how many records end by `instant`.
local function ended(instant)
  local low, high = 0, count
  while low < high do
    local middle = floor((low + high) / 2)
    if unpack('<d', raw, 41 + 34 * middle) <= instant then low = middle + 1 else high = middle end
  end
  return low
end

-- The lease with this id, if it is held. The same bytes may also begin inside of a record.
local place, ends, held_token, held_weight = 24
if operation ~= PEEK then
  repeat
    place = find(raw, id, place + 1, true)
  until not place or (place - 25) % 34 == 0
  if place then
    ends, held_token, held_weight = unpack('<ddI2', raw, place + 16)
    if ends <= at then ends = nil end
  end
end

-- The records before the one of this lease, and the first byte of those after it.
local before, after
if operation == ACQUIRE or operation == PEEK then
  if ends then return pack('<bdddd', 2, now, held_token, held_weight, ends) end
  local over, used = 0, total
  if first <= at then
    over = ended(at)
    if total == count then
      used = count - over
    else
      for i = 1, over do used = used - unpack('<I2', raw, 23 + 34 * i) end
    end
  end
  if operation == PEEK then return pack('<bdddd', 1, now, used, 0, 0) end
  if used + weight > amount then
    if weight > amount then return pack('<bdddd', 0, now, used, -1, 0) end
    local left, from, leaves, _, its_weight = used, 41 + 34 * over
    repeat
      leaves, _, its_weight = unpack('<ddI2', raw, from)
      left, from = left - its_weight, from + 34
    until left + weight <= amount
    return pack('<bdddd', 0, now, used, leaves - now, 0)
  end
  -- Instants are greater than all tokens of keys that have expired.
  last_token = max(last_token + 1, at)
  held_token, held_weight, total = last_token, weight, used + weight
  before, after = '', 25 + 34 * over
else
  if not ends or held_token ~= token then return pack('<bdddd', 0, now, 0, 0, 0) end
  before, after = sub(raw, 25, place - 1), place + 34
end

local record, to = '', #raw + 1
if operation == RELEASE then
  total = total - held_weight
else
  clock, ends = at, max(ends or 0, min(at + ttl, 9007199254740991))
  record = pack('<c16ddI2', id, ends, held_token, held_weight)
  if ends < last then to = 25 + 34 * ended(ends) end
end
raw = pack('<ddd', clock, last_token, total) .. before .. sub(raw, after, to - 1) .. record
  .. sub(raw, to)
-- The key expires once nothing in it matters: its leases have ended, and any instant is greater than
-- the latest token, and not before the latest instant.
local newest = #raw > 24 and unpack('<d', raw, #raw - 17) or 0
local lasts = ceil((max(newest, last_token + 1, at) - now) / 1000)
call('SET', key, raw, 'PX', max(lasts, 1) + slack)
if operation == RELEASE then return pack('<bdddd', 1, now, 0, 0, 0) end
return pack('<bdddd', 1, now, held_token, held_weight, ends)
