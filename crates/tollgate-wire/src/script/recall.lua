-- The last key holds the answer to an earlier call with the same id.
local known = call('GET', @answer_key)
if known then return known end
