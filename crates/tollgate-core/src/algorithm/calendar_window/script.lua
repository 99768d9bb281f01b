-- Calendar window: one count, for the period that begins at `start` and is so long. The server knows no
-- time zones: the caller sends the three boundaries of two periods.

--@ cover
now >= first_boundary and now < third_boundary

--@ read
local start, length, kept = 0, 0, 0
if raw ~= '' then start, length, kept = unpack('<ddd', raw) end
local period_start, period_end = first_boundary, second_boundary
if now >= second_boundary then period_start, period_end = second_boundary, third_boundary end
-- If the clock stepped back out of the last period, count in that.
if now < start then period_start, period_end = start, start + length end
local used = 0
if start >= period_start then used = kept end

--@ fits
used <= amount_per_period - cost

--@ remaining
max(amount_per_period - used, 0)

--@ answer

--@ commit
if used == 0 then start = period_start end
length, kept = period_end - start, min(used + amount, 9007199254740991)
-- A day longer, for zones whose boundaries move: a later one would still count it.
state, ttl = pack('<ddd', start, length, kept), ceil((period_end - now) / 1000) + 86400000 + slack

--@ refund
if used > 0 and since >= start and since < period_end then
  kept = max(kept - amount, 0)
  @lower
end

--@ give
local given = min(cost, used)
if given > 0 then
  kept = kept - given
  @lower
end

--@ lower
state, ttl = pack('<ddd', start, length, kept), 1 + slack
if kept > 0 then ttl = ceil((period_end - now) / 1000) + 86400000 + slack end
