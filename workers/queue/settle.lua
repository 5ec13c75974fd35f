-- Deletes a remote worker's report and settles its job.
--
-- ARGV  1 remote worker  2 entry of the report  3 job id, or '' if the report was refused
-- Returns 1 if a job was settled, else 0.

local worker, id = ARGV[1], ARGV[3]
local handed, held, reports = 'reef:porter:' .. worker, 'reef:held:' .. worker, 'reef:reports:' .. worker

redis.pcall('XACK', reports, 'service', ARGV[2])
redis.pcall('XDEL', reports, ARGV[2])
local text = id ~= '' and redis.call('HGET', handed, id)
if not text then
  return 0
end
redis.call('HDEL', handed, id)
if redis.call('GET', held) == id then
  redis.call('DEL', held)
end
local record = cjson.decode(text)
if not record.planted then
  redis.pcall('XACK', record.stream, 'workers', record.entry)
  redis.call('XDEL', record.stream, record.entry)
  redis.call('HDEL', 'reef:ids:' .. record.lane .. ':' .. record.search, id)
  redis.call('HDEL', 'reef:mishaps:' .. record.lane .. ':' .. record.search, id)
end
return 1
