-- Decides a request: any operation on any number of limits, whose keys come after `base` others.
-- Reads them all, and only then records. If it stands for several equal calls, they are decided as
-- if each came after the one before it. Returns the answer, and how many calls are admitted.
-- A settlement counts more or gives back; a refund is one that gives back all, a charge one that counts
-- all, and a check one that writes nothing. GIVE writes at once, too.
-- `counted` is 1 for a limit that counts denied calls, too, and 2 more for one in shadow.
-- For each limit there are a cost and a detail, which the operation gives a meaning (`Detail` in
-- codec.rs):
-- RESERVE: the longest delay.
-- SETTLE and CHECK: when the cost that is given back was counted, or -1 if the cost is counted.
-- PREFETCH: within which time units are used that are granted ahead. How many at most, and one of how many
-- parts of what is left, follow after all limits.
-- BLOCK: 1 if the cost is the instant until which, 2 if it is the time for which, 0 if it is neither.
-- Others: 0.
local CONSUME, PEEK, SETTLE, TAKE, CHECK, RESERVE, LOWER, BLOCK, PREFETCH, GIVE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local now, slack, server_now
local function set_clock(instant, millis)
  now, slack = instant, millis
  if now < 0 then
    if not server_now then
      local time = call('TIME')
      server_now = time[1] * 1000000 + time[2]
    end
    now = server_now
  end
end
-- How many entries of lists the request rewrites.
local rewritten
@machines
local machines = { @names }@covers
local function decide(argument, base, count, calls)
  local operation, instant, millis = unpack('<ddd', argument)
  set_clock(instant, millis)@check_cover
  local raws, commits, costs, counts, shadows = {}, {}, {}, {}, {}
  local allowed, most, least, delay = true, nil, nil, 0
  local function look(i, as, instead)
    local code, counted, cost, detail, a, b, c, d = unpack('<dddddddd', argument, 64 * i - 39)
    costs[i], counts[i] = instead or cost, counted % 2 == 1
    shadows[i] = counted >= 2
    local taken, before, starts_before
    if operation == SETTLE and #argument >= 24 + 88 * count then
      -- The receipt of a reservation that is refunded.
      taken, before, starts_before = unpack('<ddd', argument, 64 * count + 24 * i + 1)
    end
    return machines[code](as, KEYS[base + i], counted, costs[i], detail, taken, before, starts_before, a, b, c, d)
  end
  local function cost_of(i)
    return (unpack('<d', argument, 64 * i - 23))
  end
  if operation == SETTLE then
    -- Nothing that is written is taken back, so what fails has to fail before the first write.
    rewritten = 0
    if count > 1 then for i = 1, count do look(i, CHECK) end end
    rewritten = 0
  end
  -- Of several calls, as many as fit are admitted, and the next one is the first that is denied.
  local admitted, asked = calls, 1
  if operation == CONSUME and calls > 1 then
    for i = 1, count do
      local cost, _, remaining = cost_of(i)
      if cost > 0 then
        _, _, _, remaining = look(i, TAKE, 0)
        admitted = min(admitted, floor(remaining / cost))
      end
    end
    asked = min(admitted + 1, calls)
  end
  for i = 1, count do
    local fits, remaining
    if operation == SETTLE then
      local cost, counted_at = unpack('<dd', argument, 64 * i - 23)
      if counted_at >= 0 then
        look(i, SETTLE)
      elseif cost > 0 then
        local _, _, commit = look(i, CONSUME)
        commit(cost)
      end
      -- What is left is looked at as it is afterwards.
      fits, raws[i] = look(i, PEEK, 0)
    elseif operation == GIVE then
      -- What was given back follows from the states before and after.
      fits, raws[i] = look(i, PEEK, 0)
      if cost_of(i) > 0 then look(i, GIVE) end
      local _
      _, raws[count + i] = look(i, PEEK, 0)
    elseif operation == LOWER then
      fits, raws[i], commits[i], remaining = look(i, TAKE, 0)
      costs[i] = max(remaining - cost_of(i), 0)
    else
      fits, raws[i], commits[i], remaining = look(i, operation, asked * cost_of(i))
    end
    if operation == TAKE then
      most, least = min(most or costs[i], costs[i]), min(least or remaining, remaining)
    elseif not fits and not shadows[i] then
      allowed = false
    end
    -- What a limit in shadow would deny, it does not count.
    if fits then shadows[i] = false end
    if operation == RESERVE then delay = max(delay, remaining) end
    if operation == PREFETCH then
      least = min(least or remaining, remaining)
      most = most and most ~= costs[i] and -1 or costs[i]
    end
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
  local is_ahead = false
  if operation == PREFETCH and allowed and most > 0 then
    -- All costs are equal, and `most` is one of them.
    local limit, parts = unpack('<dd', argument, 64 * count + 25)
    local grant = min(limit, floor(least / parts))
    if grant > most then
      is_ahead = true
      for i = 1, count do costs[i] = grant end
    end
  end
  if admitted < calls then
    for i = 1, count do costs[i], counts[i] = admitted * cost_of(i), true end
  end
  if operation ~= PEEK and operation ~= SETTLE and operation ~= GIVE then
    for i = 1, count do
      if costs[i] > 0 and (allowed and not shadows[i] or counts[i] or operation == BLOCK) then commits[i](costs[i], delay, is_ahead) end
    end
  end
  for i = 1, #raws do
    raws[i] = pack('<I2', #raws[i]) .. raws[i]
  end
  return pack('<bd', allowed and 1 or 0, now) .. concat(raws), admitted
end
