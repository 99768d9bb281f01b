if cost > 0 and (all and fits or counted % 2 == 1) then
local amount, state, ttl = cost
@commit
@save
end
