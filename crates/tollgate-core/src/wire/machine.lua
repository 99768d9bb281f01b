local function @name(operation, key, counted, cost, since, @parameters)
  @read
  if operation == REFUND then
    local amount = cost
    @refund
    return
  end
  local fits = cost == 0 or @fits
  @answer
  return fits, raw, function(amount)
    @commit
  end, operation == TAKE and @remaining
end
