-- Decides many requests, one after the other, at one reading of the clock.
local requests, at, base, answers = ARGV[1], 4, 0, {}
local shares, count = unpack('<BI2', requests)
local known, late, order, is_written = {}, {}, {}, false
local direct = call
local function shared(name, key, ...)
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
if shares == 1 then
  -- A state that several of them share is read once, and written once more after the last of them.
  call = shared
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
-- Requests that differ only in their keys are of one kind.
local kinds = {}
for i = 1, count do
  local length, limits, has_id, operation, instant, millis, code, counted, cost, _, a, b, c, d =
    unpack('<I4I2Bddddddddddd', requests, at)
  set_clock(instant, millis)
  local decide_one
  if operation == CONSUME and limits == 1 and has_id == 0 then
    -- The most common one, without a loop.
    decide_one = alone[code](counted, cost, a, b, c, d)
  else
    local argument = sub(requests, at + 7, at + 6 + length)
    decide_one = function(base, calls)
      local reply, admitted = answer(argument, base, limits, calls, has_id)
      return pack('<BI4I4', 1, admitted or 1, #reply), reply
    end
  end
  kinds[i] = { decide = decide_one, keys = limits + has_id, now = now, slack = slack }
  at = at + 7 + length
end
local kind
local function decide_rest()
  while at <= #requests do
    local place, calls = unpack('<I2I4', requests, at)
    kind = kinds[place + 1]
    now, slack = kind.now, kind.slack
    local head, reply = kind.decide(base, calls)
    answers[#answers + 1] = head
    answers[#answers + 1] = reply
    at, base = at + 6, base + kind.keys
  end
end
repeat
  local is_done, failure = protected(decide_rest)
  if not is_done then
    -- What fails, fails for its own callers.
    if type(failure) == 'table' then failure = failure.err else failure = 'ERR Error running script: ' .. failure end
    answers[#answers + 1] = pack('<BI4I4', 0, 1, #failure) .. failure
    at, base = at + 6, base + kind.keys
  end
until is_done
for i = 1, #order do
  local key = order[i]
  direct('SET', key, known[key], 'PX', late[key])
end
return concat(answers)
