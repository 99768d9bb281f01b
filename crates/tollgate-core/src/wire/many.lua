-- Decides any operation on any number of limits: reads them all, and only then records.
-- A settlement counts more or gives back; a refund is one that gives back all. A check is a
-- settlement that writes nothing.
@recall
local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK = 1, 2, 3, 4, 5, 6, 7, 8
local argument, count = ARGV[1], @count
local operation, now, slack = unpack('<ddd', argument)
if now < 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
@machines
local machines = { @names }
local raws, commits, costs, counts = {}, {}, {}, {}
local allowed, most, least, delay = true, nil, nil, 0
local function look(i, as, instead)
  local code, counted, cost, since, a, b, c, d = unpack('<dddddddd', argument, 64 * i - 39)
  costs[i], counts[i] = instead or cost, counted == 1
  local taken, before, was_marked
  if operation == SETTLE and #argument > 24 + 64 * count then
    -- The receipt of a reservation that is refunded.
    taken, before, was_marked = unpack('<ddd', argument, 64 * count + 24 * i + 1)
  end
  return machines[code](as, KEYS[i], counted, costs[i], since, taken, before, was_marked, a, b, c, d)
end
if operation == SETTLE then
  -- Nothing that is written is taken back, so what fails has to fail before the first write.
  for i = 2, count do look(i, CHECK) end
end
for i = 1, count do
  local fits, remaining
  if operation == SETTLE then
    local more, since = unpack('<dd', argument, 64 * i - 23)
    if since >= 0 then
      look(i, SETTLE)
    elseif more > 0 then
      local _, _, commit = look(i, CONSUME)
      commit(more)
    end
    -- What is left is looked at as it is afterwards.
    fits, raws[i] = look(i, PEEK, 0)
  elseif operation == LOWER then
    fits, raws[i], commits[i], remaining = look(i, TAKE, 0)
    costs[i] = max(remaining - (unpack('<d', argument, 64 * i - 23)), 0)
  else
    fits, raws[i], commits[i], remaining = look(i, operation)
  end
  if operation == TAKE then
    most, least = min(most or costs[i], costs[i]), min(least or remaining, remaining)
  elseif not fits then
    allowed = false
  end
  if operation == RESERVE then delay = max(delay, remaining) end
end
if operation == TAKE then
  -- Where there is nothing to take, the refused call is that of one unit.
  local grant = min(most, least)
  allowed = grant > 0 or most == 0
  for i = 1, count do
    if allowed then
      costs[i] = grant
    else
      local _
      _, raws[i], commits[i] = look(i, CONSUME, 1)
    end
  end
end
if operation ~= PEEK and operation ~= SETTLE then
  for i = 1, count do
    if costs[i] > 0 and (allowed or counts[i] or operation == BLOCK) then commits[i](costs[i], delay) end
  end
end
for i = 1, count do
  raws[i] = pack('<I2', #raws[i]) .. raws[i]
end
@return pack('<bd', allowed and 1 or 0, now) .. concat(raws)
@remember
