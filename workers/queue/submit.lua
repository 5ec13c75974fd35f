-- Queues a job unless it is queued or leased already.
--
-- ARGV  1 lane  2 search  3 job id  4 job (JSON)
-- Returns 1 if the job was added, 0 if it was there.

local lane, search, id, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local stream = 'reef:jobs:' .. lane .. ':' .. search
local ids = 'reef:ids:' .. lane .. ':' .. search

if redis.call('HEXISTS', ids, id) == 1 then
  return 0
end
if redis.call('EXISTS', stream) == 0 then
  redis.call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
end
redis.call('HSET', ids, id, redis.call('XADD', stream, '*', 'id', id, 'job', job))

-- A search that was away must not be served alone until its count has caught up: it rejoins at the lane's turn.
-- One that has been waiting is at or above the turn, so GT leaves it alone.
redis.call('ZADD', 'reef:served:' .. lane, 'GT', redis.call('GET', 'reef:turn:' .. lane) or 0, search)
redis.call('SADD', 'reef:lanes', lane)
redis.call('LPUSH', 'reef:wake:' .. lane, id)
return 1
