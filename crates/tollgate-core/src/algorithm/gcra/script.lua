-- GCRA: the debt leaks at `leak` units per microsecond.

--@ read
local raw = call('GET', key) or ''
local debt, at = 0, now
if raw ~= '' then
  local counted_in
  debt, at, counted_in = unpack('<ddd', raw)
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
    if debt < 0 then debt = 0 end
    at = now
  end
end

--@ fits
debt <= full - cost * unit

--@ remaining
floor(max(full - debt, 0) / unit)

--@ answer

--@ commit
debt = debt + amount * unit
call('SET', key, pack('<ddd', debt, at, unit), 'PX', ceil((ceil(debt / leak) + (at - now)) / 1000) + slack)

--@ refund
local returned = amount * unit - max(at - since, 0) * leak
if debt > 0 and returned > 0 then
  debt = max(debt - returned, 0)
  local reset = 0
  if debt > 0 then reset = ceil(debt / leak) + (at - now) end
  call('SET', key, pack('<ddd', debt, at, unit), 'PX', max(ceil(reset / 1000), 1) + slack)
end
