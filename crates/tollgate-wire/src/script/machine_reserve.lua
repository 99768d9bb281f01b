  if operation == RESERVE then
    @delay
    return own <= since, raw, function(amount, delay)
      @reserve
    end, own
  end
