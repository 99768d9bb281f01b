-- The part of unit.lua for an algorithm that counts by a calendar: whether the call brought a period that
-- holds the instant.
local function covers_@name(@parameters) return @cover end
