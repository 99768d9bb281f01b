-- Sliding log: a list with one element for each instant that counts, which holds the instant and
-- the running total after it, modulo 2^32, and when it was recorded, if that was earlier, because its
-- units are used ahead. The first element is a header: the instant of the latest call, in case a refund
-- removed its element, and the total before the other elements.

--@ search
-- Finds the first entry after `low` for which `holds` is true, by a galloping binary search, or, if
-- that is the one with which so many `units` are reached, by guessing from the totals every other time:
-- where calls cost alike, the first guess is right.
-- Returns the index and the total of the entry before it, and its own instant and total. `holds`
-- must be true for the last entry of the list.
local function search(low, total_low, holds, units)
  local high, step, instant, sum = call('LLEN', key) - 1, 1, last, total
  local guesses = units
  while high - low > 1 do
    local probe = floor((low + high) / 2)
    if guesses then
      local share = (units - (total_low - before) % 4294967296) / ((sum - total_low) % 4294967296)
      probe = min(max(low + ceil((high - low) * share), low + 1), high - 1)
    elseif not units then
      probe = min(low + step, probe)
    end
    guesses = units and not guesses
    local probed, reached = unpack('<dI4', call('LINDEX', key, probe))
    if holds(probed, reached) then
      high, instant, sum = probe, probed, reached
    else
      low, total_low, step = probe, reached, 2 * step
    end
  end
  return low, total_low, instant, sum
end

--@ read
-- Functions are created only where they are needed: creating one costs as much as a command.
-- Indexes are strings, because converting a number to a string costs half as much as a command.
local raw
local front = call('LRANGE', key, '0', '2')
local latest, before, oldest, total_oldest = 0, 0
if front[1] then
  if #front[1] ~= 12 and #front[1] ~= 20 then error('data string too short') end
  latest, before = unpack('<dI4', front[1])
  if #front[1] == 20 then latest = unpack('<d', front[1], 13) end
end
local last, total = 0, before
if front[2] then
  local tail = front[2]
  oldest, total_oldest = unpack('<dI4', tail)
  if front[3] then tail = call('LINDEX', key, '-1') end
  last, total = unpack('<dI4', tail)
  local recorded = last
  if #tail == 20 then recorded = unpack('<d', tail, 13) end
  if recorded > latest then latest = recorded end
end
local at = now
if latest > now then at = latest end
-- Where a call is recorded: not before units that are used ahead, so that the list stays in order.
local place = max(at, last)
-- What was recorded at `edge` or earlier has left the window: the entries up to index `gone`.
local edge, gone = at - window, 0
if front[2] and oldest <= edge then
  if last <= edge then
    gone, before = call('LLEN', key) - 1, total
  else
    gone, before = 1, total_oldest
    oldest, total_oldest = unpack('<dI4', front[3])
    if oldest <= edge then
      @search
      gone, before, oldest, total_oldest = search(gone, before, function(instant)
        return instant > edge
      end)
    end
  end
end
local used = (total - before) % 4294967296

--@ fits
used <= amount_per_window - cost

--@ remaining
max(amount_per_window - used, 0)

--@ ahead
place = max(place, min(at + within, 9007199254740991))

--@ answer
local first, second = 0, 0
if used > 0 and (not fits or counted % 2 == 1) then
  @search
  local function recorded(units)
    if (total_oldest - before) % 4294967296 >= units then return oldest end
    local _, _, instant = search(gone, before, function(_, reached)
      return (reached - before) % 4294967296 >= units
    end, units)
    return instant
  end
  -- A denied call waits for the oldest `needed` units to leave and, if denied calls count, for
  -- `cost` more. A call that fits here may still be denied by another limit, and then counts, too.
  -- The reply's reader ignores these instants if the call waits for no unit or for all, or never
  -- fits.
  local needed = used + cost - amount_per_window
  first = recorded(needed)
  if counted % 2 == 1 then second = recorded(needed + cost) end
end
raw = pack('<ddddd', used, first, second, last, latest)

--@ commit
-- A server that is out of memory refuses only the first write of a script, and only if that command
-- may allocate memory. So RPUSH or LSET come before LTRIM and PEXPIRE, which it never refuses.
local units, newest = min(amount, amount_per_window), last
if units > 0 then
  newest = place
  local element = pack('<dI4', place, total + units)
  if place > at then element = element .. pack('<d', at) end
  if not front[1] then
    call('RPUSH', key, pack('<dI4', latest, before), element)
  elseif front[2] and last == place then
    call('LSET', key, '-1', element)
  else
    call('RPUSH', key, element)
  end
elseif not front[1] then
  call('RPUSH', key, pack('<dI4', at, before))
end
-- Only the newest units affect decisions, so older ones are removed: denied calls cannot make the log
-- grow without bound. But as many stay as a limit of a larger amount has counted.
local excess = min(used + units - amount_per_window, units)
if excess > 0 then
  @search
  gone = search(gone, before, function(_, reached)
    return (reached - before) % 4294967296 > excess
  end, excess + 1)
end
-- The last entry that has left becomes the header. A settlement under a quota of zero counts no units, but
-- later calls must not be decided before it.
if excess > 0 or units == 0 then
  call('LSET', key, format('%d', gone), pack('<dI4', at, before + excess))
end
if gone ~= 0 then call('LTRIM', key, format('%d', gone), '-1') end
-- A millisecond more than needed: if a new one begins while PEXPIRE runs, a key of one millisecond is
-- deleted at once.
local ends = 1 + slack
if used + units > 0 then ends = ends + ceil(((newest - now) + window) / 1000) end
ends = format('%d', ends)
if pcall('PEXPIRE', key, ends) ~= 1 then
  -- The server's user may not run PEXPIRE. A new key would never expire, so it is removed.
  if not front[1] then call('LTRIM', key, '1', '0') end
  call('PEXPIRE', key, ends)
end

--@ locate
-- Finds the entry of the refunded call: the one after `low`.
@search
local low, earlier, instant, sum = search(gone, before, function(probed)
  return probed >= since
end)
local newest, returned, held = call('LLEN', key) - 1, 0
if instant == since then
  held = (sum - earlier) % 4294967296
  returned = min(amount, held)
end
-- All logs of a request are rewritten in one script.
if returned > 0 then rewritten = rewritten + min(low, newest - low - 1) end
if rewritten > 2000 then error('refund is too deep in the log') end

--@ refund
if returned > 0 then
  local emptied = returned == held and 1 or 0
  -- The newest entry that is left determines the TTL.
  local reset = 0
  if returned < used then
    local ends = last
    if low + 1 + emptied > newest then ends = unpack('<dI4', call('LINDEX', key, low)) end
    reset = (ends - now) + window
  end
  -- Subtracting from the totals of this entry and all later ones is equivalent to adding to the
  -- totals of all earlier ones: the smaller group is rewritten. Entries that have left the window
  -- stay, because they count again if the clock steps back.
  local is_before = low < newest - low - 1
  local first, final, change = low + 1 + emptied, newest, -returned
  if is_before then first, final, change = 1, low, returned end
  local elements, changed = call('LRANGE', key, first, final), {}
  for i = 1, #elements do
    local probed, reached = unpack('<dI4', elements[i])
    -- LPUSH puts the last one first.
    changed[is_before and final + 1 - i or i] = pack('<dI4', probed, reached + change) .. sub(elements[i], 13)
  end
  local _, header = unpack('<dI4', front[1])
  if is_before then
    changed[low + 1] = pack('<dI4', latest, header + returned)
    -- LTRIM removes this element again. If the server refuses LPUSH, it must do so before LTRIM.
    call('LPUSH', key, front[1])
    call('LTRIM', key, low + 2 + emptied, '-1')
  else
    call('LSET', key, '0', pack('<dI4', latest, header))
    call('LTRIM', key, '0', low)
  end
  if changed[1] then call(is_before and 'LPUSH' or 'RPUSH', key, table_unpack(changed)) end
  call('PEXPIRE', key, ceil(reset / 1000) + 1 + slack)
end

--@ give
local left = max(used - cost, 0)
if left < used then
  @search
  local low, reset, _, instant = gone, 0
  if left > 0 then
    -- The entry with which as many are reached as are left.
    low, _, instant = search(gone, before, function(_, reached)
      return (reached - before) % 4294967296 >= left
    end, left)
    reset = (instant - now) + window
    low = low + 1
    local element = call('LINDEX', key, format('%d', low))
    call('LSET', key, format('%d', low), pack('<dI4', instant, before + left) .. sub(element, 13))
  end
  local _, header = unpack('<dI4', front[1])
  call('LSET', key, '0', pack('<dI4', latest, header))
  call('LTRIM', key, '0', format('%d', low))
  call('PEXPIRE', key, format('%d', ceil(reset / 1000) + 1 + slack))
end
