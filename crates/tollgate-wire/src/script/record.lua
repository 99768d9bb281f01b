if cost > 0 and (all and fits or counted == 1 or counted == 3) then
local amount, state, ttl = cost
@commit
@save
end
