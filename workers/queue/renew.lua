-- Sets the idle time and the delivery count of a lease if the worker still holds it.
--
-- ARGV  1 stream  2 worker  3 entry  4 idle time, milliseconds  5 deliveries
-- Returns 1, or 0 if the lease is gone: the job was cancelled or settled, or the lease lapsed and another worker has it.

local stream, worker, entry = ARGV[1], ARGV[2], ARGV[3]
if redis.call('EXISTS', stream) == 0 then
  return 0
end
local held = redis.call('XPENDING', stream, 'workers', entry, entry, 1)
if #held == 0 or held[1][2] ~= worker then
  return 0
end
return #redis.call('XCLAIM', stream, 'workers', worker, 0, entry, 'IDLE', ARGV[4], 'RETRYCOUNT', ARGV[5], 'JUSTID')
