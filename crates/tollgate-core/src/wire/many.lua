-- Decides any operation on any number of limits: reads them all, and only then records.
-- A check is a refund that writes nothing.
local CONSUME, PEEK, REFUND, TAKE, CHECK, RESERVE = 1, 2, 3, 4, 5, 6
local argument = ARGV[1]
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
  if operation == REFUND and #argument > 24 + 64 * #KEYS then
    -- The receipt of a reservation.
    taken, before, was_marked = unpack('<ddd', argument, 64 * #KEYS + 24 * i + 1)
  end
  return machines[code](as, KEYS[i], counted, costs[i], since, taken, before, was_marked, a, b, c, d)
end
if operation == REFUND then
  -- Nothing that is written is taken back, so what fails has to fail before the first write.
  for i = 2, #KEYS do look(i, CHECK) end
end
for i = 1, #KEYS do
  local fits, remaining
  if operation == REFUND then
    look(i, REFUND)
    -- What is left is looked at as it is afterwards.
    fits, raws[i] = look(i, PEEK, 0)
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
  for i = 1, #KEYS do
    if allowed then
      costs[i] = grant
    else
      local _
      _, raws[i], commits[i] = look(i, CONSUME, 1)
    end
  end
end
if operation == CONSUME or operation == TAKE or operation == RESERVE then
  for i = 1, #KEYS do
    if costs[i] > 0 and (allowed or counts[i]) then commits[i](costs[i], delay) end
  end
end
for i = 1, #KEYS do
  raws[i] = pack('<I2', #raws[i]) .. raws[i]
end
return pack('<bd', allowed and 1 or 0, now) .. concat(raws)
