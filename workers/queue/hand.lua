-- Answers a remote worker's request for a job. A job that it holds is sent again, since the answer may have been lost.
-- Otherwise it gets the next job of its queues. Follows `pick.lua`. Run by the service; remote workers run no scripts.
--
-- ARGV  1 remote worker  2 number of its request  3 job that it has reported, or ''  4 maximum number of reports it owes
--       5 maximum number of deliveries of a job  6 idle time after which a lease has lapsed, milliseconds
--       7.. queues
-- Returns {queue, search, entry, deliveries, id, job} of a job with too many deliveries; {} if the request was answered
-- or the worker owes too many reports; nil if there is no job.

local worker, number, done = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local handed, held, inbox = 'reef:porter:' .. worker, 'reef:held:' .. worker, 'reef:inbox:' .. worker

local function give(id, job)
  redis.call('SET', held, id)
  redis.call('HSET', handed, '', number)
  redis.call('DEL', inbox)
  redis.call('RPUSH', inbox, ARGV[2] .. '\n' .. job)
  redis.call('SADD', 'reef:workers', worker)
  return {}
end

local function again(id)
  local text = redis.call('HGET', handed, id)
  if not text then
    return nil
  end
  local record = cjson.decode(text)
  if record.planted then
    return give(id, record.job)
  end
  local mine = redis.pcall('XPENDING', record.stream, 'workers', record.entry, record.entry, 1)
  local entries = redis.call('XRANGE', record.stream, record.entry, record.entry)
  if not mine.err and #mine == 1 and mine[1][2] == worker and #entries == 1 then
    return give(id, entries[1][2][4])
  end
  redis.call('HDEL', handed, id)
  return nil
end

if number <= tonumber(redis.call('HGET', handed, '') or 0) then
  return {}
end
local id = redis.call('GET', held)
if id and id == done then
  redis.call('DEL', held)
elseif id then
  local answer = again(id)
  if answer then
    return answer
  end
end
if redis.call('HLEN', handed) > tonumber(ARGV[4]) then
  return {}
end
for index = 7, #ARGV do
  local lease = pick(ARGV[index], worker, ARGV[6])
  if lease then
    if lease[4] > tonumber(ARGV[5]) then
      return lease
    end
    local record = {lane = lease[1], search = lease[2], entry = lease[3]}
    record.stream = 'reef:jobs:' .. lease[1] .. ':' .. lease[2]
    redis.call('HSET', handed, lease[5], cjson.encode(record))
    return give(lease[5], lease[6])
  end
end
return nil
