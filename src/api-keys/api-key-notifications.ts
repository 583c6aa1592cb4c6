import { Injectable, Logger } from '@nestjs/common';
import { DatabaseListener, type Query } from '../database/database-listener.js';
import { API_KEY_CHANGED_CHANNEL } from '../database/notification-channels.js';
import { ApiKeysService } from './api-keys.service.js';
import { HELD_BYTES, IssuedDigests } from './issued-digests.js';

/** Digests per query: few enough that no other work of the process waits for them. */
const PAGE_SIZE = 10_000;
/** Beyond it the digests are loaded again, because one that was announced takes eight times the memory of one that was loaded. */
const ANNOUNCED_MAX = 10_000;
/** The end of the highest digest that begins with given bytes; others that do are held already. */
const HIGHEST_REST = Buffer.alloc(32 - HELD_BYTES, 0xff);

/**
 * Whether the trigger announces all keys. `xmin` is the transaction that wrote a row of the catalogue, so whatever is done to the
 * table, the trigger or its function gives another version for good.
 */
export const SELECT_STATE = `
  SELECT concat_ws(' ', relation.oid, relation.xmin, trigger.xmin, function.xmin) AS version,
         relkind = 'r' AND NOT relhassubclass AND tgenabled = 'A' AS "announcesAll"
  FROM pg_class AS relation
  JOIN pg_trigger AS trigger ON tgrelid = relation.oid AND tgname = 'api_keys_notify_changed'
  JOIN pg_proc AS function ON function.oid = tgfoid
  WHERE relation.oid = to_regclass('api_keys')`;

/** The next digests after `$1`, cut and concatenated: one row, because rows are what costs. */
const SELECT_PAGE = `
  SELECT string_agg(held, '' ORDER BY held) AS digests FROM (
    SELECT substring(key_hash FOR ${HELD_BYTES}) AS held FROM api_keys
    WHERE key_hash > $1::bytea AND revoked_at IS NULL ORDER BY key_hash LIMIT ${PAGE_SIZE}) AS page`;

interface State {
  readonly version: string;
  readonly announcesAll: boolean;
}

/**
 * Makes a change to a key take effect at once instead of when its cache entry expires, and keeps {@link IssuedDigests} complete.
 * Keys that the trigger does not announce, such as those that `pg_restore --disable-triggers` loads, are noticed within a second.
 */
@Injectable()
export class ApiKeyNotifications {
  readonly #logger = new Logger('ApiKeyNotifications');
  /** What the digests were loaded with; undefined while messages may be missed. */
  #version: string | undefined;

  constructor(
    listener: DatabaseListener,
    private readonly apiKeys: ApiKeysService,
    private readonly issued: IssuedDigests,
  ) {
    listener.on(API_KEY_CHANGED_CHANNEL, (keyHash) => {
      issued.add(keyHash);
      apiKeys.invalidate(keyHash);
    });
    listener.onLost = () => {
      issued.isComplete = false;
      this.#version = undefined;
    };
    listener.synchronize = (query) => this.#synchronize(query);
  }

  async #synchronize(query: Query): Promise<void> {
    const [state = { version: 'none', announcesAll: false }] = await query<State>(SELECT_STATE);
    if (state.version === this.#version) {
      if (this.issued.announcedCount > ANNOUNCED_MAX) {
        await this.issued.load(() => readDigests(query));
      }
      return;
    }
    this.issued.isComplete = false;
    this.apiKeys.invalidateAll();
    if (state.announcesAll) {
      await this.issued.load(() => readDigests(query));
      this.issued.isComplete = true;
    } else {
      this.#logger.warn('the trigger of api_keys does not report every changed key, looking up unknown keys');
    }
    this.#version = state.version;
  }
}

/** Page by page; keys that are issued meanwhile are announced. */
async function readDigests(query: Query): Promise<Buffer> {
  const pages: Buffer[] = [];
  let after = Buffer.alloc(0);
  let digests: Buffer;
  do {
    const [page] = await query<{ digests: Buffer | null }>(SELECT_PAGE, [after]);
    digests = page?.digests ?? Buffer.alloc(0);
    pages.push(digests);
    after = Buffer.concat([digests.subarray(-HELD_BYTES), HIGHEST_REST]);
  } while (digests.length === PAGE_SIZE * HELD_BYTES);
  return Buffer.concat(pages);
}
