-- Sliding counter: two counts, the older one weighted by how much of its window still counts.

--@ read
local start, current, previous, into = 0, 0, 0, 0
if raw ~= '' then
  start, current, previous = unpack('<ddd', raw)
  -- If the amount was lowered since, a count is taken as at most the new amount.
  current, previous = min(current, amount_per_window), min(previous, amount_per_window)
end
if current == 0 and previous == 0 then
  local clamped = max(now, start)
  into = clamped % window
  start = clamped - into
else
  -- If the clock stepped back out of the window, decide at the window's start.
  local since_start = max(now - start, 0)
  into = since_start % window
  local passed = since_start - into
  if passed > 0 then
    start = start + passed
    if passed == window then previous = current else previous = 0 end
    current = 0
  end
end
local weight = 0
if previous > 0 then weight = ceil(previous * (steps - floor(into / step)) / steps) end

--@ fits
current + weight <= amount_per_window - cost

--@ remaining
max(amount_per_window - current - weight, 0)

--@ answer

--@ commit
current = min(current + amount, amount_per_window)
local ends = ceil(((start - now) + 2 * window) / 1000)
-- A quota of zero counts nothing.
if current == 0 then ends = 1 end
state, ttl = pack('<ddd', start, current, previous), ends + slack

--@ refund
local returned = 0
if since >= start then
  returned = min(amount, current)
  current = current - returned
elseif start - since <= window then
  returned = min(amount, previous)
  previous = previous - returned
end
if returned > 0 then
  local reset = 0
  if current > 0 then
    reset = (start - now) + 2 * window
  elseif previous > 0 then
    reset = (start - now) + window
  end
  state, ttl = pack('<ddd', start, current, previous), max(ceil(reset / 1000), 1) + slack
end
