-- Leases the next job to a worker: lanes in the order given, in a lane the search served least, of a search a job
-- whose lease has lapsed before a new one.
--
-- ARGV  1 worker  2 idle time after which a lease has lapsed, milliseconds  3.. lanes
-- Returns {lane, search, entry, deliveries, id, job} or nil. With nil, the wake tokens of the lanes are spent.

local worker, lapsed_ms = ARGV[1], ARGV[2]

local function lapsed(stream)
  local held = redis.call('XPENDING', stream, 'workers', 'IDLE', lapsed_ms, '-', '+', 1)
  if #held == 0 then
    return nil
  end
  local claimed = redis.call('XCLAIM', stream, 'workers', worker, lapsed_ms, held[1][1])
  return claimed[1], held[1][4] + 1
end

local function fresh(stream)
  local read = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', stream, '>')
  return read and read[1][2][1], 1
end

local function next_of(lane, search)
  local stream = 'reef:jobs:' .. lane .. ':' .. search
  if redis.call('EXISTS', stream) == 0 then
    redis.call('ZREM', 'reef:served:' .. lane, search)
    return nil
  end
  local entry, deliveries = lapsed(stream)
  if not entry then
    entry, deliveries = fresh(stream)
  end
  if not entry then
    return nil
  end
  return {lane, search, entry[1], deliveries, entry[2][2], entry[2][4]}
end

for index = 3, #ARGV do
  local lane = ARGV[index]
  local served = 'reef:served:' .. lane
  local searches = redis.call('ZRANGE', served, 0, -1, 'WITHSCORES')
  for place = 1, #searches, 2 do
    local lease = next_of(lane, searches[place])
    if lease then
      redis.call('SET', 'reef:turn:' .. lane, searches[place + 1])
      redis.call('ZINCRBY', served, 1, searches[place])
      return lease
    end
  end
end
for index = 3, #ARGV do
  redis.call('DEL', 'reef:wake:' .. ARGV[index])
end
return nil
