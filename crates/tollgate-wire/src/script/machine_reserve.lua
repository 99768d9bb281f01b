  if operation == RESERVE then
    @delay
    return own <= since, raw, function(amount, delay)
      @reserve
      @save
    end, own
  end
