if cost > 0 and delay <= most then
local amount, state, ttl = cost
@reserve
@save
end
