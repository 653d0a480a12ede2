-- Replaces a lock by its owner's word only, then tells those who listen.
-- KEYS[1] the identity; ARGV[1] how the owner's lock begins, ARGV[2] the new value ('' for none),
-- ARGV[3] its time to live in ms, ARGV[4] the channel, ARGV[5] the message, ARGV[6] whether a place
-- that has become empty is to be filled.
local there = redis.call('GETRANGE', KEYS[1], 0, #ARGV[1] - 1)
if there == ARGV[1] or (there == '' and ARGV[6] == '1') then
    if ARGV[2] == '' then
        redis.call('DEL', KEYS[1])
    else
        redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    end
end
redis.call('PUBLISH', ARGV[4], ARGV[5])
return 1
