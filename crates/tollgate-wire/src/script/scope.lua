-- The part of few.lua for each limit after the first: a scope within that of the one before it.
-- Reads its numbers and its state, and adds to `all` and `raws`; @inner holds the next limit.
do
local key, cost, counted, @parameters = KEYS[@index], unpack('<@formats', ARGV[1], @place)@check_cover
@load
@read
local fits = cost == 0 or @fits
@answer
all, raws = all and (fits or counted >= 2), raws .. pack('<I2', #raw) .. raw
@inner
@record
end
