-- Calendar window: one count, for the period that began at `start`. The server knows no time zones: the
-- caller sends three boundaries.

--@ read
local start, kept = 0, 0
if raw ~= '' then
  start, kept = unpack('<dd', raw)
  if not (start <= 9007199254740991) then error('data string too short') end
end
-- If the clock stepped back out of the last period, count in that.
local counted_at = max(now, start)
if counted_at < first_boundary or counted_at >= third_boundary then
  -- Nothing is counted: the caller asks again, with the boundaries around this instant.
  error('outside of the periods: ' .. format('%d', counted_at), 0)
end
local period_start, period_end = first_boundary, second_boundary
if counted_at >= second_boundary then period_start, period_end = second_boundary, third_boundary end
local used = 0
if start >= period_start then used = kept end

--@ fits
used <= amount_per_period - cost

--@ remaining
max(amount_per_period - used, 0)

--@ answer

--@ commit
if used == 0 then start = period_start end
kept = min(used + amount, 9007199254740991)
-- A day longer, for zones whose boundaries move: a later one would still count it.
state, ttl = pack('<dd', start, kept), ceil((period_end - now) / 1000) + 86400000 + slack

--@ refund
if used > 0 and since >= start and since < period_end then
  kept = max(kept - amount, 0)
  state, ttl = pack('<dd', start, kept), 1 + slack
  if kept > 0 then ttl = ceil((period_end - now) / 1000) + 86400000 + slack end
end
