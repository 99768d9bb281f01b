-- Block: the key is blocked until the instant `ends`. `length` is how long the last block lasts
-- whose caller did not say how long.

--@ read
local ends, blocked_at, length = 0, 0, 0
if raw ~= '' then ends, blocked_at, length = unpack('<ddd', raw) end

--@ fits
(ends <= now and cost <= 9007199254740991)

--@ remaining
(ends <= now and 9007199254740991 or 0)

--@ answer

--@ commit

--@ refund

--@ block
local remembered = ends
if length > 0 then remembered = ends + memory end
if now >= remembered then length = 0 end
local wanted = 0
if mode == 0 then
  if ends <= now then
    if length == 0 then length = usual else length = min(2 * length, longest) end
    wanted = now + length
  end
elseif mode == 1 then
  wanted = span
else
  wanted = now + span
end
wanted = min(wanted, 9007199254740991)
if wanted > now and wanted > ends then
  local kept = wanted - now
  if length > 0 then kept = kept + memory end
  state, ttl = pack('<ddd', wanted, max(now, blocked_at), length), ceil(kept / 1000) + slack
end
local free = wanted <= now and ends <= now
