-- Keeps the answer, after a hash of the call, if the call was allowed.
local answer = sub(@argument, -16, -9) .. reply
if sub(reply, 1, 1) == '\1' then
  call('SET', @answer_key, answer, 'PX', format('%d', (unpack('<d', @argument, #@argument - 7))))
end
return answer
