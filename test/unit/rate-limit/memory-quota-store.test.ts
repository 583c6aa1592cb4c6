import type { BanRule } from '../../../src/rate-limit/decision.js';
import { MemoryQuotaStore } from '../../../src/rate-limit/memory-quota-store.js';
import type { Quotas } from '../../../src/plans/plans.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const QUOTAS: Quotas = { requestsPerMinute: 3, requestsPerDay: 8 };
const ONE: Quotas = { requestsPerMinute: 1, requestsPerDay: 1 };
const RULE: BanRule = { threshold: 3, windowSeconds: 60, durationSeconds: 90 };
/** So long after a first rejection, the next one counts towards a ban. */
const IN_FLIGHT_MS = 2_000;

let clock: ManualClock;
let bans: number;
let store: MemoryQuotaStore;
beforeEach(() => {
  clock = new ManualClock();
  bans = 0;
  store = new MemoryQuotaStore({ clock, banRule: RULE, bans: { inc: () => bans++ } });
});

describe('the memory store', () => {
  /** The outcome of each request, with the requests that remain in the minute and the day. */
  function consume(id: string, requests: number): string[] {
    return Array.from({ length: requests }, () => {
      const { outcome, minute, day } = store.consume(id, QUOTAS);
      return `${outcome} ${minute.remaining}/${day.remaining}`;
    });
  }

  it('counts each id separately, and each ban once, when it starts', () => {
    expect(consume('a', 4)).toEqual(['admitted 2/7', 'admitted 1/6', 'admitted 0/5', 'limited 0/5']);
    expect(consume('b', 1)).toEqual(['admitted 2/7']);
    clock.advance(IN_FLIGHT_MS);
    expect(consume('a', 3)).toEqual(['limited 0/5', 'banned 0/5', 'banned 0/5']);
    expect(consume('b', 1)).toEqual(['admitted 1/6']);
    expect(bans).toBe(1);
    clock.advance(89_999);
    expect([consume('a', 1), consume('b', 1)]).toEqual([['banned 3/5'], ['admitted 2/5']]);
    clock.advance(1);
    expect(consume('a', 4)).toEqual(['admitted 2/4', 'admitted 1/3', 'admitted 0/2', 'limited 0/2']);
    clock.advance(IN_FLIGHT_MS);
    expect(consume('a', 2)).toEqual(['limited 0/2', 'banned 0/2']);
    expect(bans).toBe(2);
  });

  it('lifts the ban of one id and its rejections, and neither its counts nor the ban of another', () => {
    consume('a', 4);
    consume('b', 4);
    clock.advance(IN_FLIGHT_MS);
    consume('a', 2);
    consume('b', 2);
    store.liftBan('a');
    expect(consume('a', 1)).toEqual(['limited 0/5']);
    clock.advance(IN_FLIGHT_MS);
    expect(consume('a', 1)).toEqual(['limited 0/5']);
    expect(consume('b', 1)).toEqual(['banned 0/5']);
    store.liftBan('a');
    // The ban window starts over with a rejection, and with those in flight.
    expect(consume('a', 3)).toEqual(['limited 0/5', 'limited 0/5', 'limited 0/5']);
    clock.advance(IN_FLIGHT_MS);
    expect(consume('a', 2)).toEqual(['limited 0/5', 'banned 0/5']);
    expect(bans).toBe(3);
  });

  it('evicts the least recently used id when there are more than 100,000', () => {
    store.consume('first', ONE);
    store.consume('second', ONE);
    store.consume('first', ONE);
    for (let number = 0; number < 99_999; number++) {
      store.consume(String(number), ONE);
    }
    expect(store.consume('first', ONE).outcome).toBe('limited');
    expect(store.consume('second', ONE).outcome).toBe('admitted');
  });
});
