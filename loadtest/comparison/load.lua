-- What wrk sends, what it expects back, and the one line that it reports.
--
-- Arguments: METHOD PATH KEYS PREFIX EXPECTED LIMIT
--   KEYS      none; one (PREFIX is the key); new (every request another key); known (the keys that
--             "new" has made with the same PREFIX, each once)
--   EXPECTED  what Idempotency-Status must say; "-": nothing is looked at but the status
--   LIMIT     the keys of each thread
--
-- The request is put together by hand: wrk.format would cost more than the request itself.

local ffi = require("ffi")
ffi.cdef [[
    struct moment { long seconds; long nanoseconds; };
    int clock_gettime(int clock, struct moment *now);
]]

local threads = {}

function setup(thread)
    thread:set("id", #threads)
    table.insert(threads, thread)
end

local function microseconds()
    local now = ffi.new("struct moment")
    ffi.C.clock_gettime(1, now) -- CLOCK_MONOTONIC
    return tonumber(now.seconds) * 1e6 + tonumber(now.nanoseconds) / 1e3
end

function init(args)
    local method, path, keys, prefix, expected = args[1], args[2], args[3], args[4], args[5]
    local limit = tonumber(args[6])
    local body = method == "POST" and '{"amount":4200,"currency":"EUR","card":"tok_visa","order":"1042"}' or ""
    local head = method .. " " .. path .. " HTTP/1.1\r\nHost: " .. wrk.host .. ":" .. wrk.port .. "\r\n"
    local tail = "\r\n"
    if method == "POST" then
        head = head .. "Content-Type: application/json\r\nContent-Length: " .. #body .. "\r\n"
        tail = tail .. body
    end
    -- wrk asks the first thread for a request that it never sends, to see how many it holds.
    sent, wrong, started, ended = (id == 0) and -1 or 0, 0, microseconds(), 0

    if keys == "none" or keys == "one" then
        local key = keys == "one" and "Idempotency-Key: " .. prefix .. "\r\n" or ""
        local whole = head .. key .. tail
        request = function()
            sent = sent + 1
            return whole
        end
    else
        head = head .. "Idempotency-Key: " .. prefix .. "-" .. id .. "-"
        tail = "\r\n" .. tail
        request = function()
            sent = sent + 1
            return head .. sent .. tail
        end
    end

    if expected ~= "-" then
        response = function(status, headers)
            local said = headers["idempotency-status"] or headers["Idempotency-Status"] or "none"
            if status < 200 or status > 299 or said ~= expected then
                wrong = wrong + 1
                complaint = status .. " " .. said
            end
            if sent >= limit then
                ended = microseconds()
                wrk.thread:stop()
            end
        end
    end
end

function done(summary, latency, requests)
    local errors = summary.errors
    local sent, wrong, least, complaint = 0, 0, math.huge, nil
    -- wrk sleeps on when its threads have stopped; they know how long they took.
    local took = summary.duration
    local longest = 0
    for _, thread in ipairs(threads) do
        sent = sent + thread:get("sent")
        wrong = wrong + thread:get("wrong")
        least = math.min(least, thread:get("sent"))
        complaint = complaint or thread:get("complaint")
        local ended = thread:get("ended")
        longest = math.max(longest, ended > 0 and ended - thread:get("started") or summary.duration)
    end
    took = math.min(took, longest)
    io.write(string.format(
        "\nRESULT requests=%d micros=%d sent=%d least=%d p50=%d p99=%d broken=%d refused=%d wrong=%d said=%s\n",
        summary.requests, took, sent, least, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.timeout, errors.status, wrong,
        complaint or "-"))
end
