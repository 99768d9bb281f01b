-- GCRA: the debt leaks at `leak` units per microsecond. One more number, if it is after `at`: the latest
-- instant at which a reserved call starts, or units may be used that were granted ahead.

--@ read
local debt, at, starts = 0, now, 0
if raw ~= '' then
  local counted_in
  debt, at, counted_in = unpack('<ddd', raw)
  if #raw > 24 then starts = unpack('<d', raw, 25) end
  if counted_in ~= unit then
    -- The quota has changed: convert the debt to the new unit, rounded up. Computes debt * unit /
    -- counted_in one bit of the unit at a time, so that no product exceeds what a double holds
    -- exactly.
    local whole = floor(debt / counted_in)
    local part = debt - whole * counted_in
    local quotient, rest, bit = 0, 0, 4503599627370496
    local bits = unit
    while bit >= 1 do
      quotient = quotient + quotient
      if rest >= counted_in - rest then
        rest, quotient = rest - (counted_in - rest), quotient + 1
      else
        rest = rest + rest
      end
      if bits >= bit then
        bits = bits - bit
        if rest >= counted_in - part then
          rest, quotient = rest - (counted_in - part), quotient + 1
        else
          rest = rest + part
        end
      end
      bit = bit / 2
    end
    if rest > 0 then quotient = quotient + 1 end
    debt = min(whole * unit + quotient, 9007199254740991)
  end
  if at < now then
    debt = debt - (now - at) * leak
    if debt <= 0 then debt, starts = 0, 0 end
    at = now
  end
end

--@ fits
debt <= full - cost * unit

--@ remaining
floor(max(full - debt, 0) / unit)

--@ left
floor(max(full - max(debt, within * leak), 0) / unit)

--@ ahead
debt, starts = max(debt, within * leak), max(starts, min(at + within, 9007199254740991))

--@ answer

--@ commit
debt = min(debt + amount * unit, 9007199254740991)
state, ttl = pack('<ddd', debt, at, unit), ceil((ceil(debt / leak) + (at - now)) / 1000) + slack
if starts > at then state = state .. pack('<d', starts) end

--@ delay
local own, room = 0, full - cost * unit
if room < 0 then
  own = 1 / 0
elseif debt > room and cost > 0 then
  own = ceil((debt - room) / leak) + (at - now)
end

--@ reserve
local lead = delay - (at - now)
debt, starts = max(debt, lead * leak), max(starts, min(at + lead, 9007199254740991))
@commit

--@ refund
local rest = debt
if taken and since > at then
  -- The call starts later: it can be given back only if it is the last, so if the debt and the latest start
  -- are what the reservation left, less what has leaked since.
  local after, leaked = max(before, (since - taken) * leak) + amount * unit, (at - taken) * leak
  local is_last = debt == after - leaked and starts == max(starts_before, since)
  if at >= taken and after <= 9007199254740991 and is_last then
    rest, starts = max(before - leaked, 0), starts_before
  end
else
  -- No call adds more than the largest debt, not even one under another quota.
  local charge = min(amount * unit, 9007199254740991)
  rest = max(debt - max(charge - max(max(at, starts) - since, 0) * leak, 0), 0)
end
@lower

--@ give
-- What was due by the latest start that is to come stays so.
local rest = max(debt - cost * unit, max(starts - at, 0) * leak)
@lower

--@ lower
-- Leaves the debt `rest`, if that is less.
if rest < debt then
  debt = rest
  local reset = 0
  if debt > 0 then reset = ceil(debt / leak) + (at - now) else starts = 0 end
  state, ttl = pack('<ddd', debt, at, unit), max(ceil(reset / 1000), 1) + slack
  if starts > at then state = state .. pack('<d', starts) end
end
