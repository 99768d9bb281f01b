  if operation == RESERVE then
    @delay
    local longest = detail
    return own <= longest, raw, function(amount, delay)
      @reserve
      @save
    end, own
  end
