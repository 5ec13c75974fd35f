-- Hands a remote worker a spot check, a job with a known answer, if it holds no job.
--
-- ARGV  1 remote worker  2 number of its request  3 job that it has reported, or ''  4 job id  5 job (JSON)
--       6 expected answer (JSON)
-- Returns 1, or 0 if the worker holds a job, owes a report on this one, or has its answer already.

local worker, number, id = ARGV[1], tonumber(ARGV[2]), ARGV[4]
local handed, held, inbox = 'reef:porter:' .. worker, 'reef:held:' .. worker, 'reef:inbox:' .. worker

local holds = redis.call('GET', held)
if number <= tonumber(redis.call('HGET', handed, '') or 0) or (holds and holds ~= ARGV[3]) then
  return 0
end
if redis.call('HEXISTS', handed, id) == 1 then
  return 0
end
redis.call('HSET', handed, id, cjson.encode({planted = true, job = ARGV[5], known = ARGV[6]}), '', number)
redis.call('SET', held, id)
redis.call('DEL', inbox)
redis.call('RPUSH', inbox, ARGV[2] .. '\n' .. ARGV[5])
redis.call('SADD', 'reef:workers', worker)
return 1
