-- Decides one request by the function of unit.lua, whatever its operation and the number of its limits.
-- Reads the argument and the keys of all limits; leaves `reply`.
@unit
local reply = decide(ARGV[1], 0, @count, 1)
