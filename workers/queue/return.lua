-- Requeues one job of a remote worker; or all its jobs, and then deletes all its keys.
--
-- ARGV  1 remote worker  2 job id, or '' for all  3 last error, or ''  4 idle time given to the leases, milliseconds
-- Returns the number of requeued jobs.

local worker, wanted, last_error = ARGV[1], ARGV[2], ARGV[3]
local handed, held = 'reef:porter:' .. worker, 'reef:held:' .. worker
local back = 0

local function take_back(id, text)
  local record = cjson.decode(text)
  if record.planted then
    return
  end
  local mine = redis.pcall('XPENDING', record.stream, 'workers', record.entry, record.entry, 1)
  if mine.err or #mine == 0 or mine[1][2] ~= worker then
    return
  end
  local deliveries = mine[1][4]
  if last_error == '' then
    deliveries = deliveries - 1
  else
    redis.call('HSET', 'reef:mishaps:' .. record.lane .. ':' .. record.search, id, last_error)
  end
  redis.call(
    'XCLAIM', record.stream, 'workers', worker, 0, record.entry, 'IDLE', ARGV[4], 'RETRYCOUNT', deliveries, 'JUSTID')
  redis.call('LPUSH', 'reef:wake:' .. record.lane, id)
  back = back + 1
end

local all = redis.call('HGETALL', handed)
for index = 1, #all, 2 do
  local id = all[index]
  if id ~= '' and (wanted == '' or wanted == id) then
    take_back(id, all[index + 1])
    redis.call('HDEL', handed, id)
  end
end
if wanted == '' then
  for _, name in ipairs({'porter', 'held', 'inbox', 'ask', 'worker', 'reports'}) do
    redis.call('DEL', 'reef:' .. name .. ':' .. worker)
  end
  redis.call('SREM', 'reef:workers', worker)
elseif redis.call('GET', held) == wanted then
  redis.call('DEL', held)
end
return back
