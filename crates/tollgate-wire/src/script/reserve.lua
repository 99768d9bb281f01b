-- Reserves a start under few limits: as few.lua, but a call that does not fit yet starts later, when
-- it fits all of them, unless that is more than `most` microseconds away.
local now, slack, most, cost, counted, @parameters = unpack('<ddd@formats', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key = KEYS[1]
@load
@read
@delay
local delay, raws = own, pack('<I2', #raw) .. raw
@inner
@record
local reply = pack('<bd', delay <= most and 1 or 0, now) .. raws
