-- Functions of scripts that take jobs out of a lane; a script that uses them follows.
--
-- ARGV  those of the script that follows
-- Returns what that returns

local function lapsed(stream, worker, lapsed_ms)
  local held = redis.call('XPENDING', stream, 'workers', 'IDLE', lapsed_ms, '-', '+', 1)
  if #held == 0 then
    return nil
  end
  local claimed = redis.call('XCLAIM', stream, 'workers', worker, lapsed_ms, held[1][1])
  return claimed[1], held[1][4] + 1
end

local function fresh(stream, worker)
  local read = redis.call('XREADGROUP', 'GROUP', 'workers', worker, 'COUNT', 1, 'STREAMS', stream, '>')
  return read and read[1][2][1], 1
end

local function next_of(lane, search, worker, lapsed_ms)
  local stream = 'reef:jobs:' .. lane .. ':' .. search
  if redis.call('EXISTS', stream) == 0 then
    redis.call('ZREM', 'reef:served:' .. lane, search)
    redis.call('HDEL', 'reef:shares:' .. lane, search)
    return nil
  end
  local entry, deliveries = lapsed(stream, worker, lapsed_ms)
  if not entry then
    entry, deliveries = fresh(stream, worker)
  end
  if not entry then
    return nil
  end
  return {lane, search, entry[1], deliveries, entry[2][2], entry[2][4]}
end

-- Searches of a lane by owner, the one served least for its priority first: owner -> {{search, count, priority}, ..}.
local function by_owner(lane)
  local found = {}
  local searches = redis.call('ZRANGE', 'reef:served:' .. lane, 0, -1, 'WITHSCORES')
  if #searches == 0 then
    return found
  end
  local shares, all = {}, redis.call('HGETALL', 'reef:shares:' .. lane)
  for place = 1, #all, 2 do
    shares[all[place]] = all[place + 1]
  end
  for place = 1, #searches, 2 do
    local priority, owner = string.match(shares[searches[place]] or '5 ', '^(%d+) (.*)$')
    found[owner] = found[owner] or {}
    table.insert(found[owner], {searches[place], searches[place + 1], tonumber(priority)})
  end
  return found
end

-- The next job for a worker out of a lane: of the owner served least, of its searches the one served least for its
-- priority, one whose lease has lapsed before a new one. {lane, search, entry, deliveries, id, job} or nil.
local function pick(lane, worker, lapsed_ms)
  local owners, turns = 'reef:owners:' .. lane, 'reef:turns:' .. lane
  local waiting = by_owner(lane)
  local order = redis.call('ZRANGE', owners, 0, -1, 'WITHSCORES')
  for place = 1, #order, 2 do
    local owner = order[place]
    if not waiting[owner] then
      redis.call('ZREM', owners, owner)
      redis.call('HDEL', turns, 'of ' .. owner)
    end
    for _, each in ipairs(waiting[owner] or {}) do
      local search, count, priority = each[1], each[2], each[3]
      local lease = next_of(lane, search, worker, lapsed_ms)
      if lease then
        redis.call('HSET', turns, 'owners', order[place + 1], 'of ' .. owner, count)
        redis.call('ZINCRBY', owners, 1, owner)
        redis.call('ZINCRBY', 'reef:served:' .. lane, string.format('%.17g', 1 / priority), search)
        return lease
      end
    end
  end
  return nil
end
