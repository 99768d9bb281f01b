-- Decides a call to consume of one limit.
local key = KEYS[1]
local now, slack, cost, counted, @parameters = unpack('<dddd@formats', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
@read
local fits = @fits
@answer
if fits or counted == 1 then
  local amount = cost
  @commit
end
return pack('<bdI2', fits and 1 or 0, now, #raw) .. raw
