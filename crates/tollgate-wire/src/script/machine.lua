-- The function of one algorithm in unit.lua: looks at one limit, for any operation, and returns whether
-- the call fits, the state from before it, and a function that records it.
-- Reads by @read and the section of the operation; writes in that function, or at once for SETTLE.
local function @name(operation, key, counted, cost, detail, taken, before, starts_before, @parameters)
  @load
  @read
  local state, ttl
  if operation == SETTLE or operation == CHECK then
    local amount, since = cost, detail
    @locate
    if operation == CHECK then return end
    @refund
    @save
    return
  end
  @giving
  @later
  @blocking
  local fits = cost == 0 or @fits
  @answer
  local within = detail
  return fits, raw, function(amount, _, is_ahead)
    local state, ttl@if_ahead
    @commit
    @save
  end, operation == TAKE and @remaining or operation == PREFETCH and @left
end
