@unit
local reply = decide(ARGV[1], 0, @count, 1)
