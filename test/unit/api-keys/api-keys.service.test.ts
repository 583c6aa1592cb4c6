import { EventEmitter } from 'node:events';
import type { ApiKeysRepository, VerifiedKey } from '../../../src/api-keys/api-keys.repository.js';
import { ApiKeysService } from '../../../src/api-keys/api-keys.service.js';
import { generateKey } from '../../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../../src/api-keys/key-format.js';
import { loadConfig } from '../../../src/config/config.js';
import type { DatabaseListener } from '../../../src/database/database-listener.js';
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
  /** The keys of each statement. */
  readonly statements: (readonly string[])[] = [];
  /** If set, every query returns from it at once. */
  rows: Map<string, VerifiedKey> | undefined;

  async findByHashes(keyHashes: readonly string[]): Promise<Map<string, VerifiedKey>> {
    this.statements.push(keyHashes);
    const found = new Map<string, VerifiedKey>();
    await Promise.all(
      keyHashes.map(async (keyHash) => {
        const key = await new Promise<VerifiedKey | undefined>((resolve, reject) => {
          this.queries.push({ keyHash, response: resolve, fail: reject });
          if (this.rows !== undefined) {
            resolve(this.rows.get(keyHash));
          }
        });
        if (key !== undefined) {
          found.set(keyHash, key);
        }
      }),
    );
    return found;
  }
}

let clock: ManualClock;
let repository: FakeRepository;
let listener: EventEmitter & { isListening: boolean };
let service: ApiKeysService;

function start(cacheSeconds = CACHE_SECONDS): void {
  clock = new ManualClock();
  repository = new FakeRepository();
  const config = loadConfig({ API_KEY_CACHE_SECONDS: String(cacheSeconds) });
  listener = Object.assign(new EventEmitter(), { isListening: true });
  service = new ApiKeysService(
    repository as unknown as ApiKeysRepository,
    listener as unknown as DatabaseListener,
    clock,
    config,
    new Metrics(),
  );
}

function verify(token: string): ReturnType<ApiKeysService['verify']> {
  return service.verify(token);
}

/** Resolves when look-ups that need not wait for a slot have begun. */
const begun = (): Promise<unknown> => new Promise(setImmediate);

/** How often a key is looked up when it is verified now. */
async function lookUpsOf(token: string): Promise<number> {
  const before = repository.queries.length;
  await verify(token);
  return repository.queries.length - before;
}

beforeEach(() => {
  start();
});

describe('a key that exists', () => {
  const key = buildKey();

  beforeEach(() => {
    repository.rows = new Map([[hashKey(TOKEN), key]]);
  });

  it('is returned from the cache until its entry expires, and is then looked up again', async () => {
    await verify(TOKEN);
    clock.advance(CACHE_SECONDS * 1_000 - 1);
    expect(await lookUpsOf(TOKEN)).toBe(0);
    clock.advance(1);
    expect(await lookUpsOf(TOKEN)).toBe(1);
    expect(await verify(TOKEN)).toEqual(key);
  });

  it('is returned from the cache in the same turn of the event loop', async () => {
    await verify(TOKEN);
    const turn = new Promise((resolve) => setImmediate(resolve, 'the next turn'));
    expect(await Promise.race([turn, verify(TOKEN)])).toEqual(key);
  });

  it('is looked up again after the clock was set back', async () => {
    await verify(TOKEN);
    clock.advance(-600_000);
    expect(await lookUpsOf(TOKEN)).toBe(1);
  });

  it('is looked up every time when the cache is off', async () => {
    start(0);
    repository.rows = new Map([[hashKey(TOKEN), key]]);
    await verify(TOKEN);
    expect(await lookUpsOf(TOKEN)).toBe(1);
  });

  it('stays cached when another key is invalidated', async () => {
    await verify(TOKEN);
    service.invalidate(hashKey(generateKey()));
    expect(await lookUpsOf(TOKEN)).toBe(0);
  });

  it('is rejected and no longer known when it is not found any more, and accepted when it is found again', async () => {
    await verify(TOKEN);
    repository.rows = new Map();
    service.invalidate(hashKey(TOKEN));
    expect(await verify(TOKEN)).toBeUndefined();
    expect(service.lastKnown(TOKEN)).toBeUndefined();
    repository.rows = new Map([[hashKey(TOKEN), key]]);
    expect(await verify(TOKEN)).toEqual(key);
  });
});

describe('a key that is not cached', () => {
  it('is looked up once for concurrent requests', async () => {
    const waiting = Array.from({ length: 50 }, () => verify(TOKEN));
    await begun();
    expect(repository.queries).toHaveLength(1);
    repository.queries[0]?.response(buildKey());
    expect(await Promise.all(waiting)).toEqual(Array(50).fill(buildKey()));
    expect(await lookUpsOf(TOKEN)).toBe(0);
  });

  it('is rejected when it expires during the query', async () => {
    const waiting = verify(TOKEN);
    await begun();
    clock.advance(1_000);
    repository.queries[0]?.response(buildKey({ expiresAt: new Date(clock.now()) }));
    await expect(waiting).resolves.toBeUndefined();
  });

  it('fails for all requests that share its look-up, and is looked up again afterwards', async () => {
    const waiting = [verify(TOKEN), verify(TOKEN)];
    await begun();
    repository.queries[0]?.fail(new Error('the database is unavailable'));
    const settled = await Promise.allSettled(waiting);
    expect(settled.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    expect(await lookUpsOf(TOKEN)).toBe(1);
  });

  it('is not looked up when it is malformed', async () => {
    expect(await verify(`${TOKEN.slice(0, -1)}!`)).toBeUndefined();
    expect(repository.queries).toHaveLength(0);
  });
});

describe.each(['invalidate', 'invalidateAll'] as const)('%s during a look-up', (method) => {
  it('starts a new query for later requests, whichever query ends first', async () => {
    const stale = verify(TOKEN);
    await begun();
    service[method](hashKey(TOKEN));
    const fresh = [verify(TOKEN), verify(TOKEN)];
    await begun();
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(undefined);
    expect(await Promise.all(fresh)).toEqual([undefined, undefined]);
    repository.queries[0]?.response(buildKey());
    await stale;
    expect(service.lastKnown(TOKEN)).toBeUndefined();
  });

  it('keeps its result out of the cache', async () => {
    const stale = verify(TOKEN);
    await begun();
    service[method](hashKey(TOKEN));
    repository.queries[0]?.response(buildKey());
    await expect(stale).resolves.toEqual(buildKey());
    repository.rows = new Map();
    await expect(verify(TOKEN)).resolves.toBeUndefined();
  });

  it('keeps a newer look-up when the older one fails', async () => {
    const stale = verify(TOKEN);
    await begun();
    service[method](hashKey(TOKEN));
    const fresh = verify(TOKEN);
    await begun();
    repository.queries[0]?.fail(new Error('lost'));
    await expect(stale).rejects.toThrow('lost');
    const shared = verify(TOKEN);
    expect(repository.queries).toHaveLength(2);
    repository.queries[1]?.response(buildKey());
    expect(await Promise.all([fresh, shared])).toEqual([buildKey(), buildKey()]);
  });
});

describe('the cache', () => {
  it('evicts the least recently used key when it holds more than 10,000', async () => {
    const tokens = Array.from({ length: 10_001 }, () => generateKey());
    repository.rows = new Map(tokens.map((token) => [hashKey(token), buildKey()]));
    for (const token of tokens) {
      await verify(token);
    }
    expect([await lookUpsOf(tokens[1]!), await lookUpsOf(tokens[0]!)]).toEqual([0, 1]);
  });

  it('keeps a valid key whatever number of invented ones is looked up', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await verify(TOKEN);
    for (let guess = 0; guess < 10_001; guess++) {
      await verify(generateKey());
    }
    expect(await lookUpsOf(TOKEN)).toBe(0);
  });
});

describe('tokens that this process has not seen', () => {
  const settle = (): void => {
    repository.queries.splice(0).forEach((query) => {
      query.response(undefined);
    });
  };

  it('share the next statement while two run, 500 at most', async () => {
    const guesses = [];
    for (const count of [1, 1, 501]) {
      guesses.push(...Array.from({ length: count }, () => verify(generateKey())));
      await begun();
    }
    const valid = verify(TOKEN);
    expect(repository.statements.map(({ length }) => length)).toEqual([1, 1]);
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    settle();
    await expect(valid).resolves.toEqual(buildKey());
    expect(repository.statements.map(({ length }) => length)).toEqual([1, 1, 500, 2]);
    expect(await Promise.all(guesses)).toEqual(Array(503).fill(undefined));
  });

  it('do not delay a key that is known and stale', async () => {
    repository.rows = new Map([[hashKey(TOKEN), buildKey()]]);
    await verify(TOKEN);
    service.invalidateAll();
    repository.rows = undefined;
    const guesses = [verify(generateKey())];
    await begun();
    guesses.push(verify(generateKey()));
    await begun();
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
