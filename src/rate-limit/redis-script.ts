import type { Quotas } from '../plans/plans.js';
import type { BanRule } from './decision.js';

/**
 * Decides ban, minute and day together and counts the request, or its rejection; the same rule as `decide` in
 * `decision.ts`, by the clock of Redis, so that replicas whose clocks differ agree.
 *
 * KEYS: the hash of one API key. `me`/`de`: the ends of the counted minute and day (Unix seconds);
 * `mu`/`du`: the requests counted in them; `rs`/`rc`: the start of the ban window (Unix milliseconds) and its rejections;
 * `bu`: the end of a ban (Unix milliseconds). It expires when day, ban window and ban have ended.
 * ARGV: {@link consumeArguments}. Returns {@link ConsumeReply}. The ends of the windows follow from the time.
 */
export const CONSUME_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local minuteEnd = (math.floor(now / 60000) + 1) * 60
local dayEnd = (math.floor(now / 86400000) + 1) * 86400
local state = redis.call('HMGET', KEYS[1], 'me', 'mu', 'de', 'du', 'rs', 'rc', 'bu')
local minuteUsed = tonumber(state[1]) == minuteEnd and tonumber(state[2]) or 0
local dayUsed = tonumber(state[3]) == dayEnd and tonumber(state[4]) or 0
local windowStart, rejections = tonumber(state[5]) or 0, tonumber(state[6]) or 0
local bannedUntil = tonumber(state[7]) or 0
local threshold, windowMs = tonumber(ARGV[3]), tonumber(ARGV[4])
local counted, banBegan = 0, 0
if now >= bannedUntil then
  if minuteUsed < tonumber(ARGV[1]) and dayUsed < tonumber(ARGV[2]) then
    minuteUsed = minuteUsed + 1
    dayUsed = dayUsed + 1
    counted = 1
    redis.call('HSET', KEYS[1], 'me', minuteEnd, 'mu', minuteUsed, 'de', dayEnd, 'du', dayUsed)
  elseif threshold > 0 then
    if now >= windowStart + windowMs then
      windowStart, rejections = now, 0
    end
    rejections = rejections + 1
    if rejections < threshold then
      redis.call('HSET', KEYS[1], 'rs', windowStart, 'rc', rejections)
    else
      banBegan = 1
      bannedUntil = now + tonumber(ARGV[5])
      redis.call('HSET', KEYS[1], 'bu', bannedUntil)
      redis.call('HDEL', KEYS[1], 'rs', 'rc')
    end
  end
  if counted == 1 or threshold > 0 then
    local expiry = math.max(dayEnd * 1000, windowStart + windowMs, bannedUntil)
    redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', expiry))
  end
end
return {now, counted, minuteUsed, dayUsed, bannedUntil, banBegan}`;

/** @returns the ARGV of {@link CONSUME_SCRIPT} */
export function consumeArguments(quotas: Quotas, rule: BanRule): number[] {
  const { threshold, windowSeconds, durationSeconds } = rule;
  return [quotas.requestsPerMinute, quotas.requestsPerDay, threshold, windowSeconds * 1_000, durationSeconds * 1_000];
}

/** What {@link CONSUME_SCRIPT} returns; `banBegan` is 1 for the request that starts a ban. Times in Unix milliseconds. */
export type ConsumeReply = [
  nowMs: number,
  counted: 0 | 1,
  minuteUsed: number,
  dayUsed: number,
  bannedUntilMs: number,
  banBegan: 0 | 1,
];

/** The fields of the hash whose removal ends a ban and resets the rejections that led to it. */
export const BAN_FIELDS = ['bu', 'rs', 'rc'] as const;

/** Where the counts of a key are. */
export function redisKeyOf(keyId: string): string {
  return `petstore:limit:${keyId}`;
}
