-- Deletes forwarded reports that are applied.
--
-- ARGV  1 search  2.. entries
-- Returns the number of forwarded reports left for this search.

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
