-- Accepts a report of a remote worker only if the worker was handed the job and still holds its lease.
--
-- ARGV  1 remote worker  2 job id
-- Returns {job, expected answer of a spot check or ''}, or nil if the report must not count.

local handed = 'reef:porter:' .. ARGV[1]
local text = redis.call('HGET', handed, ARGV[2])
if not text or ARGV[2] == '' then
  return nil
end
local record = cjson.decode(text)
if record.planted then
  return {record.job, record.known}
end
local mine = redis.pcall('XPENDING', record.stream, 'workers', record.entry, record.entry, 1)
local entries = redis.call('XRANGE', record.stream, record.entry, record.entry)
if mine.err or #mine == 0 or mine[1][2] ~= ARGV[1] or #entries == 0 then
  redis.call('HDEL', handed, ARGV[2])
  if redis.call('GET', 'reef:held:' .. ARGV[1]) == ARGV[2] then
    redis.call('DEL', 'reef:held:' .. ARGV[1])
  end
  return nil
end
redis.call('XCLAIM', record.stream, 'workers', ARGV[1], 0, record.entry, 'IDLE', 0, 'JUSTID')
return {entries[1][2][4], ''}
