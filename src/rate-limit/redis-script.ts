import type { Quotas } from '../plans/plans.js';
import { type BanRule, type Counts, IN_FLIGHT_MS, NO_REJECTIONS } from './decision.js';

/**
 * Decides ban, minute and day together and counts the request, or its rejection; the same rule as `decide` in
 * `decision.ts`, by the clock of Redis, so that replicas whose clocks differ agree.
 *
 * KEYS: the hash of one API key. `me`/`de`: the ends of the counted minute and day (Unix seconds);
 * `mu`/`du`: the requests counted in them; `rs`/`rc`: the start of the ban window (Unix milliseconds) and its rejections;
 * `bu`: the end of a ban (Unix milliseconds); `gs`: the start of the grace (Unix milliseconds), 0 without one. It
 * expires when day, ban window and ban have ended.
 * ARGV: {@link consumeArguments}. Returns {@link ConsumeReply}.
 *
 * It writes whatever it decides: any request finds out whether Redis accepts writes, those of a banned key included.
 */
export const CONSUME_SCRIPT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local perMinute, perDay, threshold = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local banWindow, banDuration = tonumber(ARGV[4]), tonumber(ARGV[5])
local state = redis.call('HMGET', KEYS[1], 'me', 'mu', 'de', 'du', 'rs', 'rc', 'bu', 'gs')
for field = 1, 8 do
  state[field] = tonumber(state[field]) or 0
end

local function windowAt(countedEnd, used, seconds)
  local windowEnd = (math.floor(now / 1000 / seconds) + 1) * seconds
  return windowEnd, windowEnd == countedEnd and used or 0
end
local minuteEnd, minuteUsed = windowAt(state[1], state[2], 60)
local dayEnd, dayUsed = windowAt(state[3], state[4], 86400)
local windowStart, rejections, graceStart = state[5], state[6], state[8]
local bannedUntil = math.min(state[7], now + banDuration)

local counted, banBegan = 0, 0
if now >= bannedUntil then
  if minuteUsed < perMinute and dayUsed < perDay then
    minuteUsed, dayUsed, counted, graceStart = minuteUsed + 1, dayUsed + 1, 1, 0
  elseif threshold > 0 then
    local elapsed = now - windowStart
    if elapsed < 0 or elapsed >= banWindow then
      windowStart, rejections, graceStart = now, 1, now
    elseif graceStart == 0 then
      graceStart = now
    elseif now - graceStart >= math.min(${IN_FLIGHT_MS}, banWindow / 2) then
      rejections = rejections + 1
      if rejections >= threshold then
        windowStart, rejections, graceStart, bannedUntil, banBegan = 0, 0, 0, now + banDuration, 1
      end
    end
  end
end

redis.call('HSET', KEYS[1], 'me', minuteEnd, 'mu', minuteUsed, 'de', dayEnd, 'du', dayUsed,
  'rs', windowStart, 'rc', rejections, 'bu', bannedUntil, 'gs', graceStart)
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.max(dayEnd * 1000, windowStart + banWindow, bannedUntil)))
return {now, counted, minuteUsed, minuteEnd, dayUsed, dayEnd, bannedUntil, banBegan}`;

/** @returns the ARGV of {@link CONSUME_SCRIPT} */
export function consumeArguments(quotas: Quotas, rule: BanRule): number[] {
  const { threshold, windowSeconds, durationSeconds } = rule;
  return [quotas.requestsPerMinute, quotas.requestsPerDay, threshold, windowSeconds * 1_000, durationSeconds * 1_000];
}

/**
 * What {@link CONSUME_SCRIPT} returns; `banBegan` is 1 for the request that starts a ban. The ends of windows are in Unix
 * seconds, the other times in Unix milliseconds.
 */
export type ConsumeReply = [
  nowMs: number,
  counted: 0 | 1,
  minuteUsed: number,
  minuteEndSeconds: number,
  dayUsed: number,
  dayEndSeconds: number,
  bannedUntilMs: number,
  banBegan: 0 | 1,
];

/** The counts in a reply, without the rejections and their grace: Redis alone counts those. */
export function countsOf(reply: ConsumeReply): Counts {
  const [, , minuteUsed, minuteEndSeconds, dayUsed, dayEndSeconds, bannedUntilMs] = reply;
  return {
    minute: { used: minuteUsed, endSeconds: minuteEndSeconds },
    day: { used: dayUsed, endSeconds: dayEndSeconds },
    ...NO_REJECTIONS,
    bannedUntilMs,
  };
}

/** The fields of the hash whose removal ends a ban and resets the rejections that led to it. */
export const BAN_FIELDS = ['bu', 'rs', 'rc', 'gs'] as const;

/** Where the counts of a key are. */
export function redisKeyOf(keyId: string): string {
  return `petstore:limit:${keyId}`;
}
