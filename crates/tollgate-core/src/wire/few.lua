local now, slack, @arguments = unpack('<dd@formats', ARGV[1])
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
@reads
local all = @allowed
@commits
return pack('<bd', all and 1 or 0, now) .. @raws
