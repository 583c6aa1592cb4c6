/**
 * Redis stores each subject in one hash, so in one slot of a cluster: `me`/`de` the ends of the counted minute and day
 * (Unix seconds), `mu`/`du` the requests counted in them, `bu` the end of a ban (Unix milliseconds). The hash expires
 * when both the day and the ban have ended.
 *
 * The scripts use the clock of Redis, so replicas whose clocks differ agree on the windows.
 */

/**
 * Decides ban, minute and day together and counts the request only when all of them admit it; the same rule as
 * `decide` in `decision.ts`. KEYS: the subject's hash. ARGV: requests per minute, requests per day.
 * Returns now (Unix milliseconds), whether the request was counted (1 or 0), minute used, day used, ban end (Unix
 * milliseconds). The ends of the windows follow from the time.
 */
export const CONSUME_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local minuteEnd = (math.floor(now / 60000) + 1) * 60
local dayEnd = (math.floor(now / 86400000) + 1) * 86400
local state = redis.call('HMGET', KEYS[1], 'me', 'mu', 'de', 'du', 'bu')
local minuteUsed = tonumber(state[1]) == minuteEnd and tonumber(state[2]) or 0
local dayUsed = tonumber(state[3]) == dayEnd and tonumber(state[4]) or 0
local bannedUntil = tonumber(state[5]) or 0
local counted = 0
if now >= bannedUntil and minuteUsed < tonumber(ARGV[1]) and dayUsed < tonumber(ARGV[2]) then
  minuteUsed = minuteUsed + 1
  dayUsed = dayUsed + 1
  counted = 1
  redis.call('HSET', KEYS[1], 'me', minuteEnd, 'mu', minuteUsed, 'de', dayEnd, 'du', dayUsed)
  redis.call('PEXPIREAT', KEYS[1], math.max(dayEnd * 1000, bannedUntil))
end
return {now, counted, minuteUsed, dayUsed, bannedUntil}`;

/**
 * Bans a subject, unless a ban is in effect: replicas that ban the same subject one after the other must not prolong the
 * first ban. KEYS: the subject's hash. ARGV: end of the ban (Unix milliseconds). Returns the end of the ban in effect.
 */
export const BAN_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local current = tonumber(redis.call('HGET', KEYS[1], 'bu')) or 0
if current > now then
  return current
end
local bannedUntil = tonumber(ARGV[1])
redis.call('HSET', KEYS[1], 'bu', string.format('%.0f', bannedUntil))
local dayEnd = tonumber(redis.call('HGET', KEYS[1], 'de')) or 0
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(dayEnd * 1000, bannedUntil)))
return bannedUntil`;

/** The key of a subject's hash. The braces make the subject the hash tag (Redis Cluster specification, "Hash tags"). */
export function redisKeyOf(subject: string): string {
  return `petstore:limit:{${subject}}`;
}
