-- The part of few.lua and scope.lua that records a call for one limit, after all limits were read.
-- Reads `all` and `fits`; writes the state that @commit makes if all fit, or if denied calls count, too.
if cost > 0 and (all and fits or counted % 2 == 1) then
local amount, state, ttl = cost
@commit
@save
end
