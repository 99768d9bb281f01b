-- The part of machine.lua for an algorithm that can block a key: the operation BLOCK.
-- Reads what @read has left; its function writes the state that @block makes.
  if operation == BLOCK then
    local span, mode = cost, detail
    @block
    return free, raw, function()
      @save
    end
  end
