-- Sliding buckets: a head, a total, and a ring of `buckets + 1` counts.

--@ read
local ring = buckets + 1
local bucket = floor(now / width)
local head, used, passed = bucket, 0, ring
if raw ~= '' then
  if #raw ~= 8 * (ring + 2) then error('data string too short') end
  head, used = unpack('<dd', raw)
  -- No state has such a head, and counting up from it may never end.
  if not (head >= 0 and head <= 9007199254740991) then error('data string too short') end
  bucket = max(bucket, head)
  passed = min(bucket - head, ring)
  if passed == ring then used = 0 end
  -- The slots of the buckets since the head hold counts that have left the window.
  if passed < ring then
    for j = head + 1, bucket do
      used = used - (unpack('<d', raw, 17 + 8 * (j % ring)))
    end
  end
end

--@ fits
used <= amount_per_window - cost

--@ remaining
max(amount_per_window - used, 0)

--@ answer

--@ commit
local counts
if passed == ring then
  counts = rep('\0', 8 * ring)
else
  counts = sub(raw, 17)
  local first = (head + 1) % ring
  local straight = min(passed, ring - first)
  if straight > 0 then
    counts = sub(counts, 1, 8 * first) .. rep('\0', 8 * straight) .. sub(counts, 8 * (first + straight) + 1)
  end
  if passed > straight then
    counts = rep('\0', 8 * (passed - straight)) .. sub(counts, 8 * (passed - straight) + 1)
  end
end
local place = 8 * (bucket % ring)
local count = unpack('<d', counts, place + 1)
amount = min(amount, 9007199254740991 - used)
counts = sub(counts, 1, place) .. pack('<d', count + amount) .. sub(counts, place + 9)
local newest = bucket
if amount == 0 then
  -- Nothing more can be counted: the newest bucket that counts determines the TTL.
  while newest > bucket - buckets and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do
    newest = newest - 1
  end
end
state, ttl = pack('<dd', bucket, used + amount) .. counts, ceil(((newest * width - now) + ring * width) / 1000) + slack

--@ refund
local j = floor(since / width)
if raw ~= '' and j <= head and bucket - j <= buckets then
  local place = 8 * (j % ring)
  local count = unpack('<d', raw, place + 17)
  local returned = min(amount, count)
  if returned > 0 then
    local _, total = unpack('<dd', raw)
    local counts = sub(raw, 17, place + 16) .. pack('<d', count - returned) .. sub(raw, place + 25)
    @lower
  end
end

--@ give
local returned = min(cost, used)
if returned > 0 then
  local _, total = unpack('<dd', raw)
  local counts, left, from = sub(raw, 17), returned, head
  while left > 0 do
    local place = 8 * (from % ring)
    local count = unpack('<d', counts, place + 1)
    local less = min(left, count)
    counts = sub(counts, 1, place) .. pack('<d', count - less) .. sub(counts, place + 9)
    left, from = left - less, from - 1
  end
  @lower
end

--@ lower
-- The newest bucket that still counts determines the TTL.
local newest = head
while newest > bucket - ring and unpack('<d', counts, 8 * (newest % ring) + 1) == 0 do
  newest = newest - 1
end
local reset = 0
if newest > bucket - ring then reset = (newest * width - now) + ring * width end
-- Only a recorded call moves the head.
state, ttl = pack('<dd', head, total - returned) .. counts, max(ceil(reset / 1000), 1) + slack
