if cost > 0 and (all or counted == 1) then
local amount = cost
@commit
end
