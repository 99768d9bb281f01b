-- The last key holds the answer to an earlier call with the same id.
local known = call('GET', KEYS[#KEYS])
if known then return known end
