-- Sliding counter: two counts, the older one weighted by how much of its window still counts.

--@ read
local start, current, previous, into = 0, 0, 0, 0
if raw ~= '' then start, current, previous = unpack('<ddd', raw) end
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
-- A count of a larger amount is taken as at most this one.
if previous > 0 then
  weight = ceil(min(previous, amount_per_window) * (steps - floor(into / step)) / steps)
end

--@ fits
current + weight <= amount_per_window - cost

--@ remaining
max(amount_per_window - current - weight, 0)

--@ answer

--@ commit
-- What a limit of a larger amount has counted stays counted for that one.
current = max(current, min(current + amount, amount_per_window))
local ends = 1
if current > 0 then
  ends = ceil(((start - now) + 2 * window) / 1000)
elseif previous > 0 then
  ends = ceil(((start - now) + window) / 1000)
end
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
@lower

--@ give
local returned = min(cost, current + previous)
previous = previous - max(returned - current, 0)
current = max(current - returned, 0)
@lower

--@ lower
-- Leaves the counts, if any of them was lowered.
if returned > 0 then
  local reset = 0
  if current > 0 then
    reset = (start - now) + 2 * window
  elseif previous > 0 then
    reset = (start - now) + window
  end
  state, ttl = pack('<ddd', start, current, previous), max(ceil(reset / 1000), 1) + slack
end
