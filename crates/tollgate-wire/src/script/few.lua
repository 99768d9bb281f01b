-- Decides about few limits: this one, and each other in a scope within that of the one before it,
-- so that its names are its own. All are read on the way in, and recorded on the way out.
local now, slack, cost, counted, @parameters = unpack('<dd@formats', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end@check_cover
local key = KEYS[1]
@load
@read
local fits = cost == 0 or @fits
@answer
local all, raws = fits or counted >= 2, pack('<I2', #raw) .. raw
@inner
@record
local reply = pack('<bd', all and 1 or 0, now) .. raws
