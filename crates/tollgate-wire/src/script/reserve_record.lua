if cost > 0 and delay <= most then
local amount = cost
@reserve
end
