/**
 * One exchange as one script: it runs as a whole, on the server's own clock, and costs one round trip. A topic has four keys (one hash
 * slot in a cluster): values by record, versions and expiry times by record, and a state: the last version, and the epoch, when the topic
 * began. The version is never behind the clock, so cursors stay good over a restart that has lost the data.
 *
 * KEYS: values, versions, expiries, state. ARGV: since, most records, then key, text, ttl of each record to be written.
 * Answers: epoch, cursor, then key, age in milliseconds, text of each record that has changed.
 */
export const EXCHANGE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local dead = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 500)
if #dead > 0 then
  redis.call('HDEL', KEYS[1], unpack(dead))
  redis.call('ZREM', KEYS[2], unpack(dead))
  redis.call('ZREM', KEYS[3], unpack(dead))
end
local version = tonumber(redis.call('HGET', KEYS[4], 'version') or '0') or 0
redis.call('HSETNX', KEYS[4], 'epoch', string.format('%.0f', now))
local most = tonumber(ARGV[2])
if #ARGV > 2 then
  local count = redis.call('HLEN', KEYS[1])
  for i = 3, #ARGV, 3 do
    if count < most or redis.call('HEXISTS', KEYS[1], ARGV[i]) == 1 then
      version = math.max(version + 1, now)
      redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f ', now) .. ARGV[i + 1])
      redis.call('ZADD', KEYS[2], version, ARGV[i])
      redis.call('ZADD', KEYS[3], now + tonumber(ARGV[i + 2]), ARGV[i])
      count = count + 1
    end
  end
  redis.call('HSET', KEYS[4], 'version', string.format('%.0f', version))
  for i = 1, 3 do redis.call('PEXPIRE', KEYS[i], 172800000) end
end
redis.call('PEXPIRE', KEYS[4], 172800000)
local since = tonumber(ARGV[1])
if since > version then since = 0 end
local changed = redis.call('ZRANGEBYSCORE', KEYS[2], string.format('(%.0f', since), '+inf', 'LIMIT', 0, most)
local answer = { redis.call('HGET', KEYS[4], 'epoch'), string.format('%.0f', version) }
for i = 1, #changed do
  local value = redis.call('HGET', KEYS[1], changed[i])
  local at, text = string.match(value or '', '^(%d+) (.*)$')
  if at then
    answer[#answer + 1] = changed[i]
    answer[#answer + 1] = string.format('%.0f', now - tonumber(at))
    answer[#answer + 1] = text
  end
end
return answer
`;
