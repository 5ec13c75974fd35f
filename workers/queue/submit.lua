-- Queues a job unless it is queued or leased already.
--
-- ARGV  1 queue  2 search  3 job id  4 job (JSON)  5 owner of the search  6 its priority, 1 to 9
-- Returns 1 if the job was added, 0 if it was there.

local queue, search, id, job = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local owner, priority = ARGV[5], ARGV[6]
local stream = 'reef:jobs:' .. queue .. ':' .. search
local ids = 'reef:ids:' .. queue .. ':' .. search

if redis.call('HEXISTS', ids, id) == 1 then
  return 0
end
if redis.call('EXISTS', stream) == 0 then
  redis.call('XGROUP', 'CREATE', stream, 'workers', '0', 'MKSTREAM')
end
redis.call('HSET', ids, id, redis.call('XADD', stream, '*', 'id', id, 'job', job))

-- A search that was absent must not get all turns until its count has caught up. So its count rises to that of its
-- owner's last turn, and an absent owner's count to that of the queue's last turn. The counts of the others are at or
-- above these, so GT leaves them as they are.
local turns = 'reef:turns:' .. queue
redis.call('HSET', 'reef:shares:' .. queue, search, priority .. ' ' .. owner)
redis.call('ZADD', 'reef:served:' .. queue, 'GT', redis.call('HGET', turns, 'of ' .. owner) or 0, search)
redis.call('ZADD', 'reef:owners:' .. queue, 'GT', redis.call('HGET', turns, 'owners') or 0, owner)
redis.call('SADD', 'reef:lanes', queue)
redis.call('LPUSH', 'reef:wake:' .. queue, id)
return 1
