-- The part of unit.lua that looks for the periods which each limit of the request needs. Without one that
-- holds the instant, nothing is read: the client asks again, with those around it.
  for i = 1, count do
    local code, _, _, _, a, b, c, d = unpack('<dddddddd', argument, 64 * i - 39)
    if covers[code] and not covers[code](a, b, c, d) then return pack('<bd', @uncovered, now), 0 end
  end
