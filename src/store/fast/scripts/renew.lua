-- Prolongs a lock that is still its owner's.
-- KEYS[1] the identity; ARGV[1] how the owner's lock begins, ARGV[2] the time to live in ms.
if redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1) == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
