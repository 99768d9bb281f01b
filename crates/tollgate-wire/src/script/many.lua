@recall
@unit
@return (decide(ARGV[1], 0, @count, 1))
@remember
