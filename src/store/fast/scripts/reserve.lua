-- SET … NX GET for servers older than 7, which refuse the two together.
-- KEYS[1] the identity; ARGV[1] the lock, ARGV[2] its time to live in ms.
local there = redis.call('GET', KEYS[1])
if there then
    return there
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return false
