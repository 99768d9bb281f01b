-- Leases: a sorted set. Of each lease, the member `e` and its id has the instant of its end as the
-- score, `t` and its id the token, `w` and its id the weight if there are weights other than 1,
-- which `w` alone says. `c` holds the latest instant at which a lease was acquired or renewed, and
-- `f` the latest token. All scores but the ends are negative, so that no range of instants contains
-- them: -1 - instant, and minus the number otherwise.
local argument = ARGV[1]
local operation, now, slack, ttl, amount, weight, token = unpack('<ddddddd', argument)
local ACQUIRE, RENEW, RELEASE = 1, 2, 3
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local key, id = KEYS[1], sub(argument, 57)
local end_of, token_of, weight_of = 'e' .. id, 't' .. id, 'w' .. id
local members = { 'c', 'f', 'w', end_of, token_of, weight_of }
local before = call('ZMSCORE', key, table_unpack(members))
local clock, last_token, weighted, ends, held_token, held_weight = table_unpack(before)
local at = now
if clock and -1 - clock > at then at = -1 - clock end
last_token = last_token and -last_token or 0
ends = ends and tonumber(ends)
if ends and ends <= at then ends = nil end
held_token = held_token and -held_token
held_weight = weighted and held_weight and -held_weight or 1

local function answer(status, first, second, third)
  return pack('<bdddd', status, now, first or 0, second or 0, third or 0)
end

-- Makes the key expire once nothing in it matters: its leases have ended, and any instant is
-- greater than the latest token, and not before the latest instant.
local function expire(newest)
  local rest = max(newest, last_token + 1, at) - now
  return pcall('PEXPIRE', key, max(ceil(rest / 1000), 1) + slack)
end

-- Returns the latest end of all leases but this one, or 0. All reads come before the first write, so
-- that a user who may not run one of them changes nothing.
local function newest_of_others()
  local last, newest = call('ZRANGE', key, -2, -1, 'WITHSCORES'), 0
  for i = 1, #last, 2 do
    if last[i] ~= end_of then newest = max(newest, last[i + 1]) end
  end
  return newest
end

-- Writes members and scores, the first of which is an end. The first write is one that a server out
-- of memory refuses.
local function record(entries)
  local newest = max(newest_of_others(), entries[1])
  call('ZADD', key, table_unpack(entries))
  if expire(newest) ~= 1 then
    -- The server's user may not run PEXPIRE. The lease would be forgotten too early, or the key
    -- never, so everything is as before.
    for i = 1, #members do
      if before[i] then
        call('ZADD', key, before[i], members[i])
      else
        call('ZREM', key, members[i])
      end
    end
    call('PEXPIRE', key, slack + 1)
  end
end

if operation == RENEW or operation == RELEASE then
  if not ends or held_token ~= token then return answer(0) end
  if operation == RENEW then
    ends = max(ends, min(at + ttl, 9007199254740991))
    record({ ends, end_of, -1 - at, 'c' })
    return answer(1, held_token, held_weight, ends)
  end
  local newest = newest_of_others()
  call('ZREM', key, end_of, token_of, weight_of)
  expire(newest)
  return answer(1)
end
if operation == ACQUIRE and ends then return answer(2, held_token, held_weight, ends) end

-- What is held, and the ends and weights of the leases if there are weights.
local used, live, weights = 0, nil, nil
if weighted then
  live, weights = call('ZRANGEBYSCORE', key, at + 1, '+inf', 'WITHSCORES'), {}
  local names = {}
  for i = 1, #live, 2 do names[#names + 1] = 'w' .. sub(live[i], 2) end
  for i = 1, #names, 1000 do
    local stop = min(i + 999, #names)
    local part = call('ZMSCORE', key, table_unpack(names, i, stop))
    for j = i, stop do
      local heavy = part[j - i + 1]
      weights[j] = heavy and -heavy or 1
      used = used + weights[j]
    end
  end
else
  used = call('ZCOUNT', key, at + 1, '+inf')
end
if operation ~= ACQUIRE then return answer(1, used) end

if used + weight > amount then
  if weight > amount then return answer(0, used, -1) end
  if not weighted then
    local needed = used + weight - amount
    local one = call('ZRANGEBYSCORE', key, at + 1, '+inf', 'WITHSCORES', 'LIMIT', needed - 1, 1)
    return answer(0, used, one[2] - now)
  end
  local rest = used
  for i = 1, #weights do
    rest = rest - weights[i]
    if rest + weight <= amount then return answer(0, used, live[2 * i] - now) end
  end
end

-- Instants are greater than all tokens of keys that have expired.
last_token = max(last_token + 1, at)
ends = min(at + ttl, 9007199254740991)
local over = call('ZRANGEBYSCORE', key, 0, at)
local entries = { ends, end_of, -last_token, token_of, -1 - at, 'c', -last_token, 'f' }
if weighted or weight ~= 1 then
  for _, value in ipairs({ -weight, weight_of, -1, 'w' }) do entries[#entries + 1] = value end
end
record(entries)
for i = 1, #over do
  if over[i] ~= end_of then
    local name = sub(over[i], 2)
    call('ZREM', key, over[i], 't' .. name, 'w' .. name)
  end
end
return answer(1, last_token, weight, ends)
