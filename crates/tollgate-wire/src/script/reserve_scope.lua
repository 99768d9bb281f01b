do
local key, cost, counted, @parameters = KEYS[@index], unpack('<@formats', ARGV[1], @place)
@load
@read
@delay
delay, raws = max(delay, own), raws .. pack('<I2', #raw) .. raw
@inner
@record
end
