if cost > 0 and (all or counted == 1) then
local amount, state, ttl = cost
@commit
@save
end
