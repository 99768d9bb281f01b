  if operation == BLOCK then
    local mode = since
    @block
    return free, raw, record
  end
