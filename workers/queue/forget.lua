-- Forgets a worker that is gone if all its reports are acknowledged.
--
-- ARGV  1 worker
-- Returns 1 if it was forgotten, 0 if it is alive or has unacknowledged reports.

local status, reports = 'reef:worker:' .. ARGV[1], 'reef:reports:' .. ARGV[1]
if redis.call('EXISTS', status) == 1 or redis.call('XLEN', reports) > 0 then
  return 0
end
redis.call('DEL', reports)
redis.call('SREM', 'reef:workers', ARGV[1])
return 1
