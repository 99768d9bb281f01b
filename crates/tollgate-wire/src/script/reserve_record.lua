-- The part of reserve.lua and reserve_scope.lua that records a reservation for one limit.
-- Reads `delay`, the longest of all limits; writes the state that @reserve makes unless that is too long.
if cost > 0 and delay <= most then
local amount, state, ttl = cost
@reserve
@save
end
