import { EventEmitter } from 'node:events';
import type { ApiKeysRepository, FoundKey } from '../../../src/api-keys/api-keys.repository.js';
import { ApiKeysService } from '../../../src/api-keys/api-keys.service.js';
import { generateKey } from '../../../src/api-keys/api-keys.admin.js';
import { hashKey } from '../../../src/api-keys/key-format.js';
import { loadConfig } from '../../../src/config/config.js';
import type { DatabaseListener } from '../../../src/database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../../../src/database/notification-channels.js';
import { Metrics } from '../../../src/metrics/metrics.js';
import { ManualClock } from '../../helpers/manual-clock.js';

const CACHE_SECONDS = 10;
const TOKEN = generateKey();
const FOUND: FoundKey = {
  id: '5f1c0e3a-8d1b-4d57-9a5e-3a4c1c1f0b11',
  plan: 'free',
  requestsPerMinute: null,
  requestsPerDay: null,
  expiresAt: null,
};

/** What the database returns for the token, once the look-up may end. */
let row: FoundKey | undefined;
let lookUps: number;
let mayEnd: Promise<void>;
let clock: ManualClock;
let listener: EventEmitter & { isListening: boolean; onConnected: () => void };
let service: ApiKeysService;

beforeEach(() => {
  row = FOUND;
  lookUps = 0;
  mayEnd = Promise.resolve();
  clock = new ManualClock();
  listener = Object.assign(new EventEmitter(), { isListening: true, onConnected: () => undefined });
  const repository = {
    async findByHashes(keyHashes: readonly string[]): Promise<Map<string, FoundKey>> {
      lookUps++;
      const found = new Map(row === undefined ? [] : keyHashes.map((keyHash) => [keyHash, row!]));
      await mayEnd;
      return found;
    },
  };
  service = new ApiKeysService(
    repository as unknown as ApiKeysRepository,
    listener as unknown as DatabaseListener,
    clock,
    loadConfig({ API_KEY_CACHE_SECONDS: String(CACHE_SECONDS) }),
    new Metrics(),
  );
});

describe('a key that was found', () => {
  it.each<[what: string, happens: () => unknown, lookUps: number]>([
    ['is known until API_KEY_CACHE_SECONDS have passed', () => clock.advance(CACHE_SECONDS * 1_000 - 1), 1],
    ['is looked up again when they have', () => clock.advance(CACHE_SECONDS * 1_000), 2],
    ['is looked up again after the clock was set back', () => clock.advance(-600_000), 2],
    ['is looked up again when it has changed', () => listener.emit(API_KEY_CHANGED_CHANNEL, hashKey(TOKEN)), 2],
    ['is known when another key has changed', () => listener.emit(API_KEY_CHANGED_CHANNEL, hashKey(generateKey())), 1],
    ['is looked up again when messages may have been missed', () => listener.onConnected(), 2],
    ['is looked up again while there are no messages', () => (listener.isListening = false), 2],
  ])('%s', async (_what, happens, expected) => {
    expect(await service.verify(TOKEN)).toMatchObject({ id: FOUND.id });
    happens();
    expect(await service.verify(TOKEN)).toMatchObject({ id: FOUND.id });
    expect(lookUps).toBe(expected);
  });

  it('is rejected when it expires during the look-up', async () => {
    row = { ...FOUND, expiresAt: new Date(clock.now() + 1_000) };
    let end: () => void = () => undefined;
    mayEnd = new Promise((resolve) => (end = resolve));
    const verifying = service.verify(TOKEN);
    clock.advance(1_000);
    end();
    expect(await verifying).toBeUndefined();
  });
});

describe('a change during a look-up', () => {
  it.each<[what: string, happens: () => unknown]>([
    ['that is notified', () => listener.emit(API_KEY_CHANGED_CHANNEL, hashKey(TOKEN))],
    ['that may have been missed', () => listener.onConnected()],
  ])('%s keeps what was read out of the cache', async (_what, happens) => {
    let end: () => void = () => undefined;
    mayEnd = new Promise((resolve) => (end = resolve));
    const reading = service.verify(TOKEN);
    await new Promise(setImmediate);
    row = undefined;
    happens();
    end();
    await reading;
    expect(await service.verify(TOKEN)).toBeUndefined();
  });
});

it('what does not exist, or is malformed, is never remembered', async () => {
  row = undefined;
  expect([await service.verify(TOKEN), await service.verify(`${TOKEN.slice(0, -1)}!`)]).toEqual([undefined, undefined]);
  row = FOUND;
  expect(await service.verify(TOKEN)).toMatchObject({ id: FOUND.id });
  expect(lookUps).toBe(2);
});
