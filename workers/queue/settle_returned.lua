-- Lets go of reports that were handed over and are applied.
--
-- ARGV  1 search  2.. entries
-- Returns how many reports still wait for this search.

local stream = 'reef:returned:' .. ARGV[1]
for index = 2, #ARGV do
  redis.call('XDEL', stream, ARGV[index])
end
local left = redis.call('XLEN', stream)
if left == 0 then
  redis.call('DEL', stream)
  redis.call('SREM', 'reef:returned', ARGV[1])
end
return left
