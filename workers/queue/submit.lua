-- Queues a job unless it is queued or leased already.
--
-- ARGV  1 lane  2 search  3 job id  4 job (JSON)  5 owner of the search  6 its priority, 1 to 9
-- Returns 1 if the job was added, 0 if it was there.

local lane, search, id, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local owner, priority = ARGV[5], ARGV[6]
local stream = 'reef:jobs:' .. lane .. ':' .. search
local ids = 'reef:ids:' .. lane .. ':' .. search

if redis.call('HEXISTS', ids, id) == 1 then
  return 0
end
if redis.call('EXISTS', stream) == 0 then
  redis.call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
end
redis.call('HSET', ids, id, redis.call('XADD', stream, '*', 'id', id, 'job', job))

-- A search that was away must not be served alone until its count has caught up: it rejoins at its owner's turn, and an
-- owner that was away at the lane's. One that has been waiting is at or above the turn, so GT leaves it alone.
local turns = 'reef:turns:' .. lane
redis.call('HSET', 'reef:shares:' .. lane, search, priority .. ' ' .. owner)
redis.call('ZADD', 'reef:served:' .. lane, 'GT', redis.call('HGET', turns, 'of ' .. owner) or 0, search)
redis.call('ZADD', 'reef:owners:' .. lane, 'GT', redis.call('HGET', turns, 'owners') or 0, owner)
redis.call('SADD', 'reef:lanes', lane)
redis.call('LPUSH', 'reef:wake:' .. lane, id)
return 1
