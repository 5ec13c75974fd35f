-- Hands a host a job of our own choice, whose answer is known, if it holds none.
--
-- ARGV  1 host  2 number of its ask  3 job that it has reported, or ''  4 job id  5 job (JSON)
--       6 what is known of the answer (JSON)
-- Returns 1, or 0 if the host holds a job, owes a report on this one, or was answered already.

local host, number, id = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local porter, held, inbox = 'reef:porter:' .. host, 'reef:held:' .. host, 'reef:inbox:' .. host

local holds = redis.call('GET', held)
if number <= tonumber(redis.call('HGET', porter, '') or 0) or (holds and holds ~= ARGV[3]) then
  return 0
end
if redis.call('HEXISTS', porter, id) == 1 then
  return 0
end
redis.call('HSET', porter, id, cjson.encode({planted = true, job = ARGV[5], known = ARGV[6]}), '', number)
redis.call('SET', held, id)
redis.call('DEL', inbox)
redis.call('RPUSH', inbox, ARGV[2] .. '\n' .. ARGV[5])
redis.call('SADD', 'reef:workers', host)
return 1
