-- The function of one algorithm in batch.lua, for the most common calls: to consume from one limit.
-- Decides the rest of a run of requests that differ in their keys only, and adds to `answers`.
-- Reads each key by @read, @remaining and @fits, and writes by @commit what is admitted.
local function alone_@name(counted, each, @parameters)
  -- What precedes an answer, by the length of the state.
  local admits, denies = {}, {}
  return function()
    local calls = calls
    while left > 0 do
      left = left - 1
      -- Of several calls, as many as fit are admitted, and the next one is the first that is denied.
      local key, cost, admitted, amount = KEYS[base + 1], each, calls, 0
      @load
      @read
      if calls > 1 and cost > 0 then
        admitted = min(calls, floor(@remaining / cost))
        cost = min(admitted + 1, calls) * cost
      end
      local fits = cost == 0 or @fits
      @answer
      if calls > 1 then
        amount = admitted * each
      elseif fits or counted == 1 then
        amount = cost
      end
      if amount > 0 then
        local state, ttl
        @commit
        @save
      end
      local heads = fits and admits or denies
      local head = calls == 1 and heads[#raw]
      if not head then
        head = pack('<BI4I4bdI2', 1, admitted, 11 + #raw, fits and 1 or 0, now, #raw)
        if calls == 1 then heads[#raw] = head end
      end
      answers[replied + 1], answers[replied + 2] = head, raw
      replied, base = replied + 2, base + 1
    end
  end
end
