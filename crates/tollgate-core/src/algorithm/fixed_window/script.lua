-- Fixed window: one count, for the window that starts at `start`.

--@ read
local start, kept, at_start = 0, 0, 0
if raw ~= '' then start, kept, at_start = unpack('<ddd', raw) end
local used, later = 0, 0
if kept > 0 and now - start < window then
  used = kept
  -- If the first call of an anchored window was refunded, one unit stays used in its place.
  if anchored == 1 and at_start == 0 then used = used + 1 end
end

--@ fits
used <= amount_per_window - cost

--@ remaining
max(amount_per_window - used, 0)

--@ ahead
-- Of units that are used later, the window does not start with one.
later = amount - cost

--@ answer

--@ commit
-- If the clock stepped back out of the window, count at the window's start.
local counted_at = max(now, start)
if used == 0 then
  start, kept, at_start = counted_at, 0, 0
  if anchored == 0 then start = counted_at - counted_at % window end
end
if counted_at == start and (kept == 0 or at_start > 0) then
  at_start = min(at_start + amount - later, 9007199254740991)
end
kept = min(kept + amount, 9007199254740991)
state, ttl = pack('<ddd', start, kept, at_start), ceil(((start - now) + window) / 1000) + slack

--@ refund
if used > 0 and since >= start and since - start < window then
  kept = max(kept - amount, 0)
  if since == start then at_start = max(at_start - amount, 0) end
  @lower
end

--@ give
local given = min(cost, used, kept)
if given > 0 then
  kept = kept - given
  -- The first call is the last to be given back.
  at_start = min(at_start, kept)
  @lower
end

--@ lower
local reset = 0
if kept > 0 then reset = (start - now) + window end
state, ttl = pack('<ddd', start, kept, at_start), max(ceil(reset / 1000), 1) + slack
