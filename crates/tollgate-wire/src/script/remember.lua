-- Keeps the answer, after a hash of the call, if the call was allowed.
local answer = sub(ARGV[1], -16, -9) .. reply
if sub(reply, 1, 1) == '\1' then
  call('SET', KEYS[#KEYS], answer, 'PX', format('%d', (unpack('<d', ARGV[1], #ARGV[1] - 7))))
end
return answer
