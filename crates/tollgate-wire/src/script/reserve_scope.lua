-- The part of reserve.lua for each limit after the first: a scope within that of the one before it.
-- Reads its numbers and its state, and adds to `delay` and `raws`; @inner holds the next limit.
do
local key, cost, counted, @parameters = KEYS[@index], unpack('<@formats', ARGV[1], @place)
@load
@read
@delay
delay, raws = max(delay, own), raws .. pack('<I2', #raw) .. raw
@inner
@record
end
