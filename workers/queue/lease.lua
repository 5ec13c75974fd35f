-- Leases the next job to a worker, from the first of the queues that has one. Follows `pick.lua`.
--
-- ARGV  1 worker  2 idle time after which a lease has lapsed, milliseconds  3.. queues
-- Returns {queue, search, entry, deliveries, id, job} or nil. With nil, the wake tokens of the queues are deleted.

for index = 3, #ARGV do
  local lease = pick(ARGV[index], ARGV[1], ARGV[2])
  if lease then
    return lease
  end
end
for index = 3, #ARGV do
  redis.call('DEL', 'reef:wake:' .. ARGV[index])
end
return nil
