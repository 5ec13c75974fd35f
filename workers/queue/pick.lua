-- Functions for scripts that take jobs from a queue. The script that uses them is appended to this text.
--
-- ARGV and the return value are those of that script.

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

local function next_of(queue, search, worker, lapsed_ms)
  local stream = 'reef:jobs:' .. queue .. ':' .. search
  if redis.call('EXISTS', stream) == 0 then
    redis.call('ZREM', 'reef:served:' .. queue, search)
    redis.call('HDEL', 'reef:shares:' .. queue, search)
    return nil
  end
  local entry, deliveries = lapsed(stream, worker, lapsed_ms)
  if not entry then
    entry, deliveries = fresh(stream, worker)
  end
  if not entry then
    return nil
  end
  return {queue, search, entry[1], deliveries, entry[2][2], entry[2][4]}
end

-- Searches of a queue by owner: owner -> {{search, count, priority}, ..}, the least served for its priority first.
local function by_owner(queue)
  local found = {}
  local searches = redis.call('ZRANGE', 'reef:served:' .. queue, 0, -1, 'WITHSCORES')
  if #searches == 0 then
    return found
  end
  local shares, all = {}, redis.call('HGETALL', 'reef:shares:' .. queue)
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

-- Returns the next job of a queue as {queue, search, entry, deliveries, id, job}, or nil. The least served owner comes
-- first, then its search that was served least for its priority, then a job with a lapsed lease before a new one.
local function pick(queue, worker, lapsed_ms)
  local owners, turns = 'reef:owners:' .. queue, 'reef:turns:' .. queue
  local waiting = by_owner(queue)
  local order = redis.call('ZRANGE', owners, 0, -1, 'WITHSCORES')
  for place = 1, #order, 2 do
    local owner = order[place]
    if not waiting[owner] then
      redis.call('ZREM', owners, owner)
      redis.call('HDEL', turns, 'of ' .. owner)
    end
    for _, each in ipairs(waiting[owner] or {}) do
      local search, count, priority = each[1], each[2], each[3]
      local lease = next_of(queue, search, worker, lapsed_ms)
      if lease then
        redis.call('HSET', turns, 'owners', order[place + 1], 'of ' .. owner, count)
        redis.call('ZINCRBY', owners, 1, owner)
        redis.call('ZINCRBY', 'reef:served:' .. queue, string.format('%.17g', 1 / priority), search)
        return lease
      end
    end
  end
  return nil
end
