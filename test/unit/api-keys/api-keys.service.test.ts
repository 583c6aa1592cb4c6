import { ApiKeyIndex } from '../../../src/api-keys/api-key-index.js';
import type { ApiKeysRepository } from '../../../src/api-keys/api-keys.repository.js';
import { ApiKeysService } from '../../../src/api-keys/api-keys.service.js';
import { generateKey, hashKey } from '../../../src/api-keys/key-format.js';
import type { VerifiedKey } from '../../../src/api-keys/verified-key.js';
import { loadConfig } from '../../../src/config/load-config.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const CACHE_SECONDS = 10;
const TOKEN = generateKey();

function buildKey(overrides: Partial<VerifiedKey> = {}): VerifiedKey {
  return {
    id: '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11',
    plan: 'free',
    quotas: { requestsPerMinute: 60, requestsPerDay: 1_000 },
    expiresAtMs: undefined,
    ...overrides,
  };
}

/** A repository whose queries end when the test ends them. */
class FakeRepository {
  readonly queries: {
    readonly keyHash: string;
    response(key: VerifiedKey | undefined): void;
    fail(error: Error): void;
  }[] = [];
  /** If set, every query returns from it at once. */
  rows: Map<string, VerifiedKey> | undefined;

  digestPrefixes(): Promise<string> {
    return Promise.resolve([...(this.rows?.keys() ?? [])].map((keyHash) => keyHash.slice(0, 16)).join(''));
  }

  findByHash(keyHash: string): Promise<VerifiedKey | undefined> {
    return new Promise((resolve, reject) => {
      this.queries.push({ keyHash, response: resolve, fail: reject });
      if (this.rows !== undefined) {
        resolve(this.rows.get(keyHash));
      }
    });
  }
}

let clock: ManualClock;
let repository: FakeRepository;
let index: ApiKeyIndex;
let service: ApiKeysService;

function start(cacheSeconds = CACHE_SECONDS): void {
  clock = new ManualClock();
  repository = new FakeRepository();
  const config = loadConfig({ API_KEY_CACHE_SECONDS: String(cacheSeconds) });
  index = new ApiKeyIndex(repository as unknown as ApiKeysRepository);
  service = new ApiKeysService(repository as unknown as ApiKeysRepository, index, clock, config, new Metrics());
}

beforeEach(async () => {
  start();
  await index.load();
  index.add(hashKey(TOKEN));
});

describe('a key that exists', () => {
  const key = buildKey();

  beforeEach(() => {
    repository.rows = new Map([[hashKey(TOKEN), key]]);
  });

  it('is looked up by its digest', async () => {
    await expect(service.verify(TOKEN)).resolves.toEqual(key);
    expect(repository.queries.map(({ keyHash }) => keyHash)).toEqual([hashKey(TOKEN)]);
  });

  it('is returned from the cache, without a promise, until its entry expires, and is then looked up again', async () => {
    await service.verify(TOKEN);
    clock.advance(CACHE_SECONDS * 1_000 - 1);
    expect(service.verify(TOKEN)).toEqual(key);
    expect(repository.queries).toHaveLength(1);
    clock.advance(1);
    await expect(service.verify(TOKEN)).resolves.toEqual(key);
    expect(repository.queries).toHaveLength(2);
  });

  it('is looked up again after API_KEY_CACHE_SECONDS, even if it was used meanwhile', async () => {
    await service.verify(TOKEN);
    for (let second = 0; second < CACHE_SECONDS; second++) {
      await service.verify(TOKEN);
      clock.advance(1_000);
    }
    await service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
  });

  it('is looked up every time when the cache is off', async () => {
    start(0);
    repository.rows = new Map([[hashKey(TOKEN), key]]);
    await service.verify(TOKEN);
    await service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
  });

  it.each(['invalidate', 'invalidateAll'] as const)('is looked up again after %s', async (method) => {
    await service.verify(TOKEN);
    service[method](hashKey(TOKEN));
    repository.rows = new Map();
    await expect(service.verify(TOKEN)).resolves.toBeUndefined();
  });

  it('stays cached when another key is invalidated', async () => {
    await service.verify(TOKEN);
    service.invalidate(hashKey(generateKey()));
    expect(service.verify(TOKEN)).toEqual(key);
  });
});

describe('a key that does not exist', () => {
  beforeEach(() => {
    repository.rows = new Map();
  });

  it('is cached as unknown until its entry expires', async () => {
    await expect(service.verify(TOKEN)).resolves.toBeUndefined();
    clock.advance(CACHE_SECONDS * 1_000 - 1);
    expect(service.verify(TOKEN)).toBeUndefined();
    expect(repository.queries).toHaveLength(1);
    clock.advance(1);
    await service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
  });

  it('is found after it is issued and its entry invalidated', async () => {
    await service.verify(TOKEN);
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    service.invalidate(hashKey(TOKEN));
    await expect(service.verify(TOKEN)).resolves.toEqual(buildKey());
  });
});

describe('a token that is not well-formed', () => {
  it.each(['', 'abc', 'pst_', `${TOKEN.slice(0, -1)}!`, TOKEN.toLowerCase()])(
    'is rejected without a query: %p',
    (text) => {
      expect(service.verify(text)).toBeUndefined();
      expect(repository.queries).toHaveLength(0);
    },
  );
});

describe('concurrent look-ups of one key', () => {
  it('share one query', async () => {
    const waiting = Array.from({ length: 50 }, () => service.verify(TOKEN));
    expect(repository.queries).toHaveLength(1);
    repository.queries[0]?.response(buildKey());
    expect(await Promise.all(waiting.map((response) => Promise.resolve(response)))).toEqual(Array(50).fill(buildKey()));
    expect(service.verify(TOKEN)).toEqual(buildKey());
  });

  it('do not delay those of another key', async () => {
    const other = generateKey();
    index.add(hashKey(other));
    const first = service.verify(TOKEN);
    const second = service.verify(other);
    expect(repository.queries.map(({ keyHash }) => keyHash)).toEqual([hashKey(TOKEN), hashKey(other)]);
    repository.queries[1]?.response(buildKey({ id: 'other' }));
    await expect(second).resolves.toMatchObject({ id: 'other' });
    repository.queries[0]?.response(undefined);
    await expect(first).resolves.toBeUndefined();
  });
});

describe.each(['invalidate', 'invalidateAll'] as const)('%s during a look-up', (method) => {
  it('does not cache a row that was read before it', async () => {
    const before = service.verify(TOKEN);
    service[method](hashKey(TOKEN));
    repository.queries[0]?.response(buildKey({ plan: 'free' }));
    await before;
    const after = service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(buildKey({ plan: 'pro' }));
    await expect(after).resolves.toMatchObject({ plan: 'pro' });
    expect(service.verify(TOKEN)).toMatchObject({ plan: 'pro' });
  });

  it('starts a new query for later requests, whichever query ends first', async () => {
    const stale = service.verify(TOKEN);
    service[method](hashKey(TOKEN));
    const fresh = service.verify(TOKEN);
    const shared = service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(undefined);
    await expect(fresh).resolves.toBeUndefined();
    await expect(shared).resolves.toBeUndefined();
    repository.queries[0]?.response(buildKey());
    await stale;
    expect(service.verify(TOKEN)).toBeUndefined();
    expect(repository.queries).toHaveLength(2);
  });

  it('keeps a newer look-up when the older one fails', async () => {
    const stale = service.verify(TOKEN);
    service[method](hashKey(TOKEN));
    const fresh = service.verify(TOKEN);
    repository.queries[0]?.fail(new Error('lost'));
    await expect(stale).rejects.toThrow('lost');
    const shared = service.verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(buildKey());
    await expect(fresh).resolves.toEqual(buildKey());
    await expect(shared).resolves.toEqual(buildKey());
  });
});

describe('a key that expires', () => {
  it('is valid until the last millisecond before its expiry, also from the cache', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey({ expiresAtMs: clock.now() + 5_000 })]]);
    await expect(service.verify(TOKEN)).resolves.toBeDefined();
    clock.advance(4_999);
    expect(service.verify(TOKEN)).toBeDefined();
    clock.advance(1);
    expect(service.verify(TOKEN)).toBeUndefined();
    expect(repository.queries).toHaveLength(1);
  });

  it('is rejected when it has expired before the first look-up', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey({ expiresAtMs: clock.now() })]]);
    await expect(service.verify(TOKEN)).resolves.toBeUndefined();
  });

  it('is rejected when it expires during the query', async () => {
    const waiting = service.verify(TOKEN);
    clock.advance(1_000);
    repository.queries[0]?.response(buildKey({ expiresAtMs: clock.now() }));
    await expect(waiting).resolves.toBeUndefined();
  });
});

describe('a look-up that fails', () => {
  it('rejects all requests that share it and is not cached', async () => {
    const waiting = [service.verify(TOKEN), service.verify(TOKEN)].map((response) => Promise.resolve(response));
    repository.queries[0]?.fail(new Error('the database is unavailable'));
    const settled = await Promise.allSettled(waiting);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await expect(service.verify(TOKEN)).resolves.toEqual(buildKey());
    expect(repository.queries).toHaveLength(2);
  });

  it('rejects when the cache entry of the key is stale', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await service.verify(TOKEN);
    clock.advance(CACHE_SECONDS * 1_000);
    repository.rows = undefined;
    const waiting = service.verify(TOKEN);
    repository.queries[1]?.fail(new Error('the database is unavailable'));
    await expect(waiting).rejects.toThrow('the database is unavailable');
  });
});

describe('the cache of keys that exist', () => {
  it('evicts the least recently used key when it holds more than 10,000', async () => {
    const tokens = Array.from({ length: 10_001 }, () => generateKey());
    repository.rows = new Map(tokens.map((token) => [hashKey(token), buildKey()]));
    await index.load();
    for (const token of tokens) {
      await service.verify(token);
    }
    expect(service.verify(tokens[1] ?? '')).toEqual(buildKey());
    expect(service.verify(tokens[0] ?? '')).toBeInstanceOf(Promise);
  });

  it('keeps a valid key whatever number of unknown keys are looked up', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await service.verify(TOKEN);
    for (let guess = 0; guess < 10_001; guess++) {
      await service.verify(generateKey());
    }
    expect(service.verify(TOKEN)).toEqual(buildKey());
  });
});

describe('unknown keys from an address over its limits', () => {
  const isLimited = (): boolean => true;

  it('cause no query', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    for (let guess = 0; guess < 300; guess++) {
      expect(service.verify(generateKey(), isLimited)).toBeUndefined();
    }
    expect(repository.queries).toHaveLength(0);
    await expect(service.verify(TOKEN, isLimited)).resolves.toEqual(buildKey());
  });

  it('are looked up while the index is incomplete', async () => {
    index.invalidate();
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await expect(service.verify(TOKEN, isLimited)).resolves.toEqual(buildKey());
  });

  it('are looked up when a notification has announced them', async () => {
    const token = generateKey();
    repository.rows = new Map([[hashKey(token), buildKey()]]);
    expect(service.verify(token, isLimited)).toBeUndefined();
    index.add(hashKey(token));
    await expect(service.verify(token, isLimited)).resolves.toEqual(buildKey());
  });
});

describe('concurrent look-ups of unknown keys', () => {
  it('of one new key share a query before its notification arrives', async () => {
    const token = generateKey();
    const requests = Array.from({ length: 50 }, () => Promise.resolve(service.verify(token)));
    repository.rows = new Map([[hashKey(token), buildKey()]]);
    expect(await Promise.all(requests)).toEqual(Array(50).fill(buildKey()));
    expect(repository.queries).toHaveLength(1);
  });

  it('stop once their address is over its limits', async () => {
    repository.rows = new Map();
    const isLimited = (): boolean => repository.queries.length >= 5;
    await Promise.all(Array.from({ length: 50 }, async () => service.verify(generateKey(), isLimited)));
    expect(repository.queries.length).toBeLessThanOrEqual(6);
  });

  it('run two at a time; the other keys are unknown because the index does not contain them', async () => {
    const guesses = Array.from({ length: 50 }, () => Promise.resolve(service.verify(generateKey())));
    const settled = Promise.all(guesses.slice(2));
    expect(await settled).toEqual(Array(48).fill(undefined));
    expect(repository.queries).toHaveLength(2);
    repository.queries.forEach((query) => {
      query.response(undefined);
    });
    await Promise.all(guesses);
  });

  it('do not delay a key that the index contains', async () => {
    const guesses = Array.from({ length: 50 }, () => Promise.resolve(service.verify(generateKey())));
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await expect(service.verify(TOKEN)).resolves.toEqual(buildKey());
    repository.queries.forEach((query) => {
      query.response(undefined);
    });
    await Promise.all(guesses);
  });

  it('are rejected with service_unavailable when the index is incomplete and none ends in time', async () => {
    index.invalidate();
    const guesses = Array.from({ length: 3 }, () => Promise.resolve(service.verify(generateKey())));
    await expect(guesses[2]).rejects.toMatchObject({ code: 'service_unavailable' });
    repository.queries.forEach((query) => {
      query.response(undefined);
    });
    await Promise.all(guesses.slice(0, 2));
  });
});

describe('a key whose cache entry is stale', () => {
  it('is still the last known key of its token, also after all entries were invalidated', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey({ plan: 'business' })]]);
    await service.verify(TOKEN);
    service.invalidateAll();
    expect(service.lastKnown(TOKEN)).toMatchObject({ plan: 'business' });
    expect(service.lastKnown(generateKey())).toBeUndefined();
  });
});
