-- The part of machine.lua for an algorithm that has reservations: the operation RESERVE.
-- Reads the delay of this limit by @delay; its function writes the state that @reserve makes.
  if operation == RESERVE then
    @delay
    local longest = detail
    return own <= longest, raw, function(amount, delay)
      @reserve
      @save
    end, own
  end
