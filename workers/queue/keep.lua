-- Renews the lease on a remote worker's job while the worker keeps renewing its status.
--
-- ARGV  1 remote worker
-- Returns 1 if it was renewed, 0 if the worker is silent, holds nothing or has lost its job. In the last case the key
-- of the held job is deleted, which tells the worker.

local worker = ARGV[1]
local handed, held = 'reef:porter:' .. worker, 'reef:held:' .. worker
local id = redis.call('GET', held)
if not id then
  return 0
end
local text = redis.call('HGET', handed, id)
local record = text and cjson.decode(text)
if record and record.planted then
  return 1
end
local mine = record and redis.pcall('XPENDING', record.stream, 'workers', record.entry, record.entry, 1)
if not mine or mine.err or #mine == 0 or mine[1][2] ~= worker then
  redis.call('DEL', held)
  redis.call('HDEL', handed, id)
  return 0
end
if redis.call('EXISTS', 'reef:worker:' .. worker) == 0 then
  return 0
end
return #redis.call('XCLAIM', record.stream, 'workers', worker, 0, record.entry, 'IDLE', 0, 'JUSTID')
