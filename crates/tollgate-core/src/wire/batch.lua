-- Decides many requests, one after the other, at one reading of the clock. A state that several of
-- them share is read once, and written once more after the last of them.
local known, late, order, is_written = {}, {}, {}, false
local direct = call
local function call(name, key, ...)
  if name == 'GET' then
    if known[key] == nil then known[key] = direct(name, key) end
    return known[key]
  end
  if name == 'SET' then
    local value, _, ttl = ...
    if is_written then
      if not late[key] then order[#order + 1] = key end
      late[key] = ttl
    else
      -- A server that is out of memory, or a replica, refuses the first write of a script, and then
      -- each of them.
      direct(name, key, ...)
      is_written = true
    end
    known[key] = value
    return
  end
  if key then return direct(name, key, ...) end
  return direct(name)
end
@unit
local function answer(argument, base, count, calls, has_id)
  if has_id == 0 then return decide(argument, base, count, calls) end
  local answer_key = KEYS[base + count + 1]
@recall
  local reply = decide(argument, base, count, calls)
@remember
end
@alone
local alone = { @names_alone }
local requests, at, base, answers = ARGV[1], 1, 0, {}
while at <= #requests do
  local length, count, calls, has_id, operation, instant, millis, code, counted, cost, _, a, b, c, d =
    unpack('<I4I2I4Bddddddddddd', requests, at)
  local is_done, reply, rest
  -- What fails, fails for its own callers.
  if operation == CONSUME and count == 1 and has_id == 0 then
    -- The most common one, without a loop.
    set_clock(instant, millis)
    is_done, reply, rest = protected(alone[code], KEYS[base + 1], calls, counted, cost, a, b, c, d)
  else
    local argument, admitted = sub(requests, at + 11, at + 10 + length)
    is_done, rest, admitted = protected(answer, argument, base, count, calls, has_id)
    if is_done then reply = pack('<BI4I4', 1, admitted or 1, #rest) else reply = rest end
  end
  if not is_done then
    if type(reply) == 'table' then rest = reply.err else rest = 'ERR Error running script: ' .. reply end
    reply = pack('<BI4I4', 0, 1, #rest)
  end
  answers[#answers + 1] = reply
  answers[#answers + 1] = rest
  at, base = at + 11 + length, base + count + has_id
end
for i = 1, #order do
  local key = order[i]
  direct('SET', key, known[key], 'PX', late[key])
end
return concat(answers)
