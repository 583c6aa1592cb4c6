import type { ApiKeysRepository, VerifiedKey } from '../../../src/api-keys/api-keys.repository.js';
import { ApiKeysService } from '../../../src/api-keys/api-keys.service.js';
import { IssuedDigests } from '../../../src/api-keys/issued-digests.js';
import { generateKey } from '../../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../../src/api-keys/key-format.js';
import { loadConfig } from '../../../src/config/config.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const CACHE_SECONDS = 10;
const TOKEN = generateKey();

function buildKey(overrides: Partial<VerifiedKey> = {}): VerifiedKey {
  return {
    id: '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11',
    plan: 'free',
    quotas: { requestsPerMinute: 60, requestsPerDay: 1_000 },
    expiresAt: null,
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
let issued: IssuedDigests;
let service: ApiKeysService;

function start(cacheSeconds = CACHE_SECONDS): void {
  clock = new ManualClock();
  repository = new FakeRepository();
  const config = loadConfig({ API_KEY_CACHE_SECONDS: String(cacheSeconds) });
  issued = new IssuedDigests();
  issued.isComplete = true;
  issued.add(hashKey(TOKEN));
  service = new ApiKeysService(repository as unknown as ApiKeysRepository, issued, clock, config, new Metrics());
}

function verify(token: string, caller = 'caller'): ReturnType<ApiKeysService['verify']> {
  return service.verify(token, () => caller);
}

beforeEach(() => {
  start();
});

describe('a key that exists', () => {
  const key = buildKey();

  beforeEach(() => {
    repository.rows = new Map([[hashKey(TOKEN), key]]);
  });

  it('is returned from the cache, without a promise, until its entry expires, and is then looked up again', async () => {
    await verify(TOKEN);
    clock.advance(CACHE_SECONDS * 1_000 - 1);
    expect(verify(TOKEN)).toEqual(key);
    expect(repository.queries).toHaveLength(1);
    clock.advance(1);
    await expect(verify(TOKEN)).resolves.toEqual(key);
    expect(repository.queries).toHaveLength(2);
  });

  it('is looked up again after the clock was set back', async () => {
    await verify(TOKEN);
    clock.advance(-600_000);
    await expect(verify(TOKEN)).resolves.toEqual(key);
    expect(repository.queries).toHaveLength(2);
  });

  it('is looked up every time when the cache is off', async () => {
    start(0);
    repository.rows = new Map([[hashKey(TOKEN), key]]);
    await verify(TOKEN);
    await verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
  });

  it('stays cached when another key is invalidated', async () => {
    await verify(TOKEN);
    service.invalidate(hashKey(generateKey()));
    expect(verify(TOKEN)).toEqual(key);
  });
});

it('a key that was issued and is revoked is cached as such until its entry expires', async () => {
  repository.rows = new Map();
  await expect(verify(TOKEN)).resolves.toBeUndefined();
  clock.advance(CACHE_SECONDS * 1_000 - 1);
  expect(verify(TOKEN)).toBeUndefined();
  expect(repository.queries).toHaveLength(1);
  clock.advance(1);
  await verify(TOKEN);
  expect(repository.queries).toHaveLength(2);
});

it('concurrent look-ups of one key share one query', async () => {
  const waiting = Array.from({ length: 50 }, () => verify(TOKEN));
  expect(repository.queries).toHaveLength(1);
  repository.queries[0]?.response(buildKey());
  expect(await Promise.all(waiting.map((response) => Promise.resolve(response)))).toEqual(Array(50).fill(buildKey()));
  expect(verify(TOKEN)).toEqual(buildKey());
});

describe.each(['invalidate', 'invalidateAll'] as const)('%s during a look-up', (method) => {
  it('starts a new query for later requests, whichever query ends first', async () => {
    const stale = verify(TOKEN);
    service[method](hashKey(TOKEN));
    const fresh = verify(TOKEN);
    const shared = verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(undefined);
    await expect(fresh).resolves.toBeUndefined();
    await expect(shared).resolves.toBeUndefined();
    repository.queries[0]?.response(buildKey());
    await stale;
    expect(verify(TOKEN)).toBeUndefined();
    expect(repository.queries).toHaveLength(2);
  });

  it('keeps a newer look-up when the older one fails', async () => {
    const stale = verify(TOKEN);
    service[method](hashKey(TOKEN));
    const fresh = verify(TOKEN);
    repository.queries[0]?.fail(new Error('lost'));
    await expect(stale).rejects.toThrow('lost');
    const shared = verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(buildKey());
    await expect(fresh).resolves.toEqual(buildKey());
    await expect(shared).resolves.toEqual(buildKey());
  });
});

it('a key is rejected when it expires during the query', async () => {
  const waiting = verify(TOKEN);
  clock.advance(1_000);
  repository.queries[0]?.response(buildKey({ expiresAt: new Date(clock.now()) }));
  await expect(waiting).resolves.toBeUndefined();
});

it('a look-up that fails rejects all requests that share it and is not cached', async () => {
  const waiting = [verify(TOKEN), verify(TOKEN)].map((response) => Promise.resolve(response));
  repository.queries[0]?.fail(new Error('the database is unavailable'));
  const settled = await Promise.allSettled(waiting);
  expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
  repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
  await expect(verify(TOKEN)).resolves.toEqual(buildKey());
  expect(repository.queries).toHaveLength(2);
});

describe('the cache', () => {
  it('evicts the least recently used key when it holds more than 10,000', async () => {
    const tokens = Array.from({ length: 10_001 }, () => generateKey());
    repository.rows = new Map(tokens.map((token) => [hashKey(token), buildKey()]));
    for (const token of tokens) {
      issued.add(hashKey(token));
      await verify(token);
    }
    expect(verify(tokens[1] ?? '')).toEqual(buildKey());
    expect(verify(tokens[0] ?? '')).toBeInstanceOf(Promise);
  });

  it('keeps a valid key whatever number of unknown keys are looked up', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await verify(TOKEN);
    issued.isComplete = false;
    for (let guess = 0; guess < 10_001; guess++) {
      await verify(generateKey());
    }
    expect(verify(TOKEN)).toEqual(buildKey());
  });
});

describe('unknown keys while notifications may be missed', () => {
  const settle = (): void => {
    repository.queries.splice(0).forEach((query) => {
      query.response(undefined);
    });
  };

  beforeEach(() => {
    issued.isComplete = false;
  });

  it('are looked up, and cached when they exist', async () => {
    const token = generateKey();
    repository.rows = new Map([[hashKey(token), buildKey()]]);
    await expect(verify(token)).resolves.toEqual(buildKey());
    expect(verify(token)).toEqual(buildKey());
    await expect(verify(generateKey())).resolves.toBeUndefined();
    issued.isComplete = true;
    clock.advance(CACHE_SECONDS * 1_000);
    await expect(verify(token)).resolves.toEqual(buildKey());
  });

  it('are not looked up when they are malformed', () => {
    expect(verify(`${TOKEN.slice(0, -1)}!`)).toBeUndefined();
    expect(repository.queries).toHaveLength(0);
  });

  it('are looked up two at a time, and rejected with service_unavailable when none ends in time', async () => {
    const guesses = Array.from({ length: 3 }, () => Promise.resolve(verify(generateKey())));
    await expect(guesses[2]).rejects.toMatchObject({ code: 'service_unavailable' });
    expect(repository.queries).toHaveLength(2);
    settle();
    expect(await Promise.all(guesses.slice(0, 2))).toEqual([undefined, undefined]);
  });

  it('of one caller do not delay those of another', async () => {
    const guesses = Array.from({ length: 50 }, () => Promise.resolve(verify(generateKey(), 'guesser')));
    const token = generateKey();
    const other = Promise.resolve(verify(token, 'other'));
    await Promise.resolve();
    repository.queries[0]?.response(undefined);
    await guesses[0];
    await new Promise(setImmediate);
    expect(repository.queries[2]?.keyHash).toBe(hashKey(token));
    repository.queries[2]?.response(buildKey());
    await expect(other).resolves.toEqual(buildKey());
    repository.rows = new Map();
    settle();
    await Promise.all(guesses);
  });

  it('do not delay a key that is known to have been issued', async () => {
    const guesses = Array.from({ length: 3 }, () => Promise.resolve(verify(generateKey()))).slice(0, 2);
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await expect(verify(TOKEN)).resolves.toEqual(buildKey());
    settle();
    await Promise.all(guesses);
  });
});

it('a key whose cache entry is stale is still the last known key of its token, also after invalidateAll', async () => {
  repository.rows = new Map([[hashKey(TOKEN), buildKey({ plan: 'business' })]]);
  await verify(TOKEN);
  service.invalidateAll();
  expect(service.lastKnown(TOKEN)).toMatchObject({ plan: 'business' });
  expect(service.lastKnown(generateKey())).toBeUndefined();
});
