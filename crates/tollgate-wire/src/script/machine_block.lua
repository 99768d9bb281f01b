  if operation == BLOCK then
    local mode = since
    @block
    return free, raw, function()
      @save
    end
  end
