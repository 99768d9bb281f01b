-- The twin of the sliding log on a server: a list with one element for each instant that counts,
-- which holds the instant and the running total after it, modulo 2^19, in nine bytes. The first
-- element is a header: the latest instant, if a refund removed it, and the total before the rest.

--@ parameters
amount_per_window, window

--@ search
local function open(element)
  local low, middle, high = unpack('<I6BI2', element)
  local top = middle % 8
  return low + (middle - top) * 35184372088832, top * 65536 + high
end
-- Returns the last entry from `low` on that does not hold, its total, and the instant and the
-- total of the next, which is the first that does. The last of all must hold.
local function search(low, total_low, holds)
  local newest = call('LLEN', key) - 1
  local high, step, instant, sum = low + 1, 1, last, total
  while high < newest do
    local probed, reached = open(call('LINDEX', key, high))
    if holds(probed, reached) then
      instant, sum = probed, reached
      break
    end
    low, total_low, step = high, reached, 2 * step
    high = high + step
  end
  high = min(high, newest)
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    local probed, reached = open(call('LINDEX', key, middle))
    if holds(probed, reached) then
      high, instant, sum = middle, probed, reached
    else
      low, total_low = middle, reached
    end
  end
  return low, total_low, instant, sum
end

--@ read
-- Functions are made only where they are needed: making one costs as much as a command.
local raw
local front = call('LRANGE', key, 0, 2)
local latest, before, last, total = 0, 0, 0, 0
local oldest, total_oldest = 0, 0
if front[1] then
  local low, middle, high = unpack('<I6BI2', front[1])
  local top = middle % 8
  latest, before = low + (middle - top) * 35184372088832, top * 65536 + high
  last, total = 0, before
end
if front[2] then
  local low, middle, high = unpack('<I6BI2', front[2])
  local top = middle % 8
  oldest, total_oldest = low + (middle - top) * 35184372088832, top * 65536 + high
  last, total = oldest, total_oldest
end
if front[3] then
  local low, middle, high = unpack('<I6BI2', call('LINDEX', key, -1))
  local top = middle % 8
  last, total = low + (middle - top) * 35184372088832, top * 65536 + high
end
if last > latest then latest = last end
local at = now
if latest > now then at = latest end
-- What was recorded here or earlier has left the window: the entries up to `gone`.
local edge, gone = at - window, 0
if front[2] and oldest <= edge then
  if last <= edge then
    gone, before = call('LLEN', key) - 1, total
  else
    gone, before = 1, total_oldest
    local low, middle, high = unpack('<I6BI2', front[3])
    local top = middle % 8
    oldest, total_oldest = low + (middle - top) * 35184372088832, top * 65536 + high
    if oldest <= edge then
      @search
      gone, before, oldest, total_oldest = search(2, total_oldest, function(instant)
        return instant > edge
      end)
    end
  end
end
local used = (total - before) % 524288

--@ fits
used <= amount_per_window - cost

--@ remaining
max(amount_per_window - used, 0)

--@ answer
local first, second = 0, 0
if cost <= amount_per_window and (not fits or counted == 1) then
  @search
  local function recorded(units)
    if units < 1 or units > used then return 0 end
    if (total_oldest - before) % 524288 >= units then return oldest end
    local _, _, instant = search(gone + 1, total_oldest, function(_, reached)
      return (reached - before) % 524288 >= units
    end)
    return instant
  end
  -- A refused call waits for the oldest units to leave, and for as many again once it is counted,
  -- which it is where another limit refuses, too.
  local needed = used + cost - amount_per_window
  first = recorded(needed)
  if counted == 1 then second = recorded(needed + cost) end
end
raw = pack('<ddddd', used, first, second, last, latest)

--@ commit
-- A server that is out of memory refuses only the first write of a script, and only a command that
-- may take memory: so RPUSH or LSET come before LTRIM and PEXPIRE, which it always lets through.
local units = amount
if units > amount_per_window then units = amount_per_window end
local excess = used + units - amount_per_window
local ends = ceil(((at - now) + window) / 1000) + slack
if units == 0 then
  -- A quota of zero counts nothing, but the clock does not go back behind a call that counts.
  local low = at % 281474976710656
  local header = pack('<I6BI2', low, (at - low) / 35184372088832 + floor(total / 65536), total % 65536)
  ends = 1 + slack
  if front[1] then
    call('LSET', key, 0, header)
    call('LTRIM', key, 0, 0)
  else
    call('RPUSH', key, header)
  end
else
  local sum = (total + units) % 524288
  local low, part = at % 281474976710656, sum % 65536
  local element = pack('<I6BI2', low, (at - low) / 35184372088832 + (sum - part) / 65536, part)
  -- Only the newest units decide anything, so what is counted of refused calls is bounded.
  if excess > 0 and front[1] then
    if excess >= used then
      gone = call('LLEN', key) - 1
    elseif (total_oldest - before) % 524288 <= excess then
      @search
      gone = search(gone + 1, total_oldest, function(_, reached)
        return (reached - before) % 524288 > excess
      end)
    end
  end
  if not front[1] then
    call('RPUSH', key, pack('<I6BI2', 0, 0, 0), element)
  elseif front[2] and last == at and (excess <= 0 or excess < used) then
    call('LSET', key, -1, element)
  else
    call('RPUSH', key, element)
  end
  -- The last entry that has left becomes the header.
  if gone > 0 then call('LTRIM', key, gone, -1) end
  if excess > 0 and front[1] then
    local forgotten = (before + excess) % 524288
    call('LSET', key, 0, pack('<I6BI2', 0, floor(forgotten / 65536), forgotten % 65536))
  end
end
if pcall('PEXPIRE', key, ends) ~= 1 then
  -- The user may not run PEXPIRE. A new key would never expire, so it is removed.
  if not front[1] then call('LTRIM', key, 1, 0) end
  call('PEXPIRE', key, ends)
end

--@ locate
-- Finds the entry to give back from: the one after `low`.
local low, earlier, instant, sum, newest = 0, 0, 0, 0, 0
local held, returned = 0, 0
@search
if front[2] and since > edge and since <= last then
  newest = call('LLEN', key) - 1
  low, earlier, instant, sum = search(gone, before, function(probed)
    return probed >= since
  end)
  if instant == since then
    held = (sum - earlier) % 524288
    returned = min(amount, held)
  end
  if returned > 0 and min(low, newest - low - 1) > 2000 then
    error('refund is too deep in the log')
  end
end

--@ refund
if returned > 0 then
  local function close(at, reached)
    local low = at % 281474976710656
    return pack('<I6BI2', low, (at - low) / 35184372088832 + floor(reached / 65536), reached % 65536)
  end
  local emptied = returned == held and 1 or 0
  local reset = 0
  if emptied == 0 or low + 1 < newest then
    reset = (last - now) + window
  elseif low > gone then
    reset = (open(call('LINDEX', key, low)) - now) + window
  end
  -- To take from the total of this entry and of all later ones, or to add to the totals of all
  -- earlier ones, comes to the same: whichever are fewer are written again. What has left the
  -- window stays: it counts again if the clock steps back.
  local push, changed = 'RPUSH', {}
  local _, header = open(front[1])
  if low < newest - low - 1 then
    local earlier_ones = call('LRANGE', key, 1, low)
    for i = low, 1, -1 do
      local probed, reached = open(earlier_ones[i])
      changed[#changed + 1] = close(probed, (reached + returned) % 524288)
    end
    changed[low + 1] = close(latest, (header + returned) % 524288)
    push = 'LPUSH'
    -- Removed again at once: for a server that refuses the command to refuse it before LTRIM.
    call('LPUSH', key, front[1])
    call('LTRIM', key, low + 2 + emptied, -1)
  else
    local later_ones = call('LRANGE', key, low + 1 + emptied, -1)
    for i = 1, #later_ones do
      local probed, reached = open(later_ones[i])
      changed[i] = close(probed, (reached - returned) % 524288)
    end
    call('LSET', key, 0, close(latest, header))
    call('LTRIM', key, 0, low)
  end
  if changed[1] then call(push, key, table_unpack(changed)) end
  call('PEXPIRE', key, max(ceil(reset / 1000), 1) + slack)
end
