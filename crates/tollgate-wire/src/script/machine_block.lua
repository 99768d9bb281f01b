  if operation == BLOCK then
    local span, mode = cost, detail
    @block
    return free, raw, function()
      @save
    end
  end
