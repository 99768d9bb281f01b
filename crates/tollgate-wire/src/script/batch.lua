-- Decides many requests, one after the other, at one reading of the clock.
local requests, at, base, answers, replied = ARGV[1], 4, 0, {}, 0
local shares, count = unpack('<BI2', requests)
-- Reads all strings in one command. A key without a value may be missing or of another type; reading
-- it by itself tells which. A user who may not run MGET gets an error, which holds no value either.
local values = @has_strings and #KEYS > 1 and pcall('MGET', table_unpack(KEYS)) or {}
local known, is_written, format_any, number_before, text = {}, false, format, nil, nil
-- What is written after the last request: keys and values in turn, and the TTL of each, in milliseconds.
-- Only the first `written` of them count; tables that begin with entries need not grow so often.
local written, later, ttls, place_of = 0, { table_unpack(KEYS) }, { table_unpack(KEYS) }, {}
-- Returns a whole number as text, which is often that of the call before.
local function format(_, number)
  if number ~= number_before then number_before, text = number, format_any('%d', number) end
  return text
end
local function get(key)
  if known[key] == nil then known[key] = call('GET', key) end
  return known[key]
end
-- Writes a value: at once if it is the first, or else after the last request.
local function set(key, value, ttl)
  -- A TTL that no limit gives is refused at once, so that it fails its own callers only.
  if is_written and ttl >= 1 and ttl <= 9007199254740991 then
    local place = place_of[key]
    if not place then
      written = written + 1
      place = written
      later[2 * place - 1] = key
      -- A state that several requests share is written once, after the last of them.
      place_of[key] = place
    end
    later[2 * place], ttls[place] = value, ttl
  else
    -- A server that is out of memory, or a replica, refuses the first write of a script, and then
    -- each of them.
    call('SET', key, value, 'PX', format('%d', ttl))
    is_written = true
  end
  if shares == 1 or known[key] ~= nil then known[key] = value end
end
-- The same, with less to look at, for a key that no other request reads.
local function set_alone(key, value, ttl)
  if shares == 0 and is_written and ttl >= 1 and ttl <= 9007199254740991 then
    written = written + 1
    local place = 2 * written
    later[place - 1], later[place], ttls[written] = key, value, ttl
  else
    set(key, value, ttl)
  end
end
@unit
local function answer(argument, base, count, calls, has_id)
  if has_id == 0 then return decide(argument, base, count, calls) end
  local answer_key = KEYS[base + count + 1]
  -- As in recall.lua and remember.lua.
  local known_answer = get(answer_key)
  if known_answer then return known_answer end
  local reply = decide(argument, base, count, calls)
  local answer = sub(argument, -16, -9) .. reply
  if sub(reply, 1, 1) == '\1' then
    set(answer_key, answer, (unpack('<d', argument, #argument - 7)))
  end
  return answer
end
-- Successive requests of one kind for as many equal calls are a run: how many are left of it, and for
-- how many calls each stands.
local left, calls = 0, 0
@alone
local alone = { @names_of_alone }
-- Requests that differ only in their keys are of one kind.
local kinds, are_alone = {}, shares == 0
for i = 1, count do
  local length, limits, has_id, operation, instant, millis, code, counted, cost, _, a, b, c, d =
    unpack('<I4I2Bddddddddddd', requests, at)
  set_clock(instant, millis)
  local decide_run
  if operation == CONSUME and limits == 1 and has_id == 0 and counted < 2@and_covered then
    -- The most common one.
    decide_run = alone[code](counted, cost, a, b, c, d)
  else
    are_alone = false
    local argument = sub(requests, at + 7, at + 6 + length)
    decide_run = function()
      while left > 0 do
        left = left - 1
        local reply, admitted = answer(argument, base, limits, calls, has_id)
        answers[replied + 1], answers[replied + 2] = pack('<BI4I4', 1, admitted or 1, #reply), reply
        replied, base = replied + 2, base + limits + has_id
      end
    end
  end
  kinds[i] = { decide = decide_run, keys = limits + has_id, now = now, slack = slack }
  at = at + 7 + length
end
if not are_alone then
  -- A state may be read again after it was written.
  for i = 1, #KEYS do known[KEYS[i]] = values[i] or nil end
  values = {}
end
local kind
local function decide_rest()
  while left > 0 or at <= #requests do
    if left == 0 then
      local place
      place, calls, left = unpack('<I2I4I2', requests, at)
      at, kind = at + 8, kinds[place + 1]
      now, slack = kind.now, kind.slack
    end
    kind.decide()
  end
end
repeat
  local is_done, failure = protected(decide_rest)
  if not is_done then
    -- What fails, fails for its own callers.
    if type(failure) == 'table' then failure = failure.err else failure = 'ERR Error running script: ' .. failure end
    -- A replica refuses all writes, so nothing is counted. The client has to see that, to look for the
    -- primary.
    local from = find(failure, 'READONLY ', 1, true)
    if from then return { err = sub(failure, from) } end
    replied, base = replied + 1, base + kind.keys
    answers[replied] = pack('<BI4I4', 0, 1, #failure) .. failure
  end
until is_done
-- One MSET and a PEXPIREAT for each key take less time than a SET with a TTL for each. PEXPIRE takes a
-- little more, since Redis has to read its clock.
local are_set = written > 1 and not pcall('MSET', table_unpack(later, 1, 2 * written)).err
local expire, from = 'PEXPIRE', 0
if server_now then expire, from = 'PEXPIREAT', ceil(server_now / 1000) end
for i = 1, written do
  local key = later[2 * i - 1]
  -- The user may have no permission but for SET.
  if not are_set or pcall(expire, key, format('%d', from + ttls[i])) ~= 1 then
    call('SET', key, later[2 * i], 'PX', format('%d', ttls[i]))
  end
end
return concat(answers)
