import { gunzipSync } from 'node:zlib';
import {
  type BlockVersionsRow,
  parseListVersion,
  SELECT_BLOCK_VERSIONS,
} from '../../../src/orders/list/list-version.js';
import { requestRaw } from '../../helpers/raw-http.js';
import { useTestService } from '../../helpers/test-service.js';
import { waitFor } from '../../helpers/wait-for.js';

const INT64_MIN = '-9223372036854775808';

const context = useTestService();
beforeEach(() => context.service.db.query('TRUNCATE orders, order_list_changes'));

async function version(): Promise<ReturnType<typeof parseListVersion>> {
  const { rows } = await context.service.db.query<BlockVersionsRow>(SELECT_BLOCK_VERSIONS);
  return parseListVersion(rows[0]!);
}

/** One step of compaction. */
async function compactFrom(id: string): Promise<string | undefined> {
  const { rows } = await context.service.db.query<{ last: string | null }>(
    'SELECT compact_order_list_changes($1) AS last',
    [id],
  );
  return rows[0]?.last ?? undefined;
}

async function list(encoding: string): Promise<{ etag: string; ids: string[] }> {
  const { headers, body } = await requestRaw(context.service.baseUrl, {
    key: context.key,
    headers: { 'Accept-Encoding': encoding },
  });
  const text = (encoding === 'gzip' ? gunzipSync(body) : body).toString();
  return { etag: String(headers.etag), ids: Array.from(text.matchAll(/\{"id":(\d+),/g), ([, id]) => id ?? '') };
}

describe('many changes of one block', () => {
  const CHANGES = 50_000;

  beforeEach(() =>
    context.service.db.query(`
      INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1);
      INSERT INTO order_list_changes (block, token)
        SELECT 0, hashtextextended(n::text, 0) FROM generate_series(2, ${CHANGES}) AS n`),
  );

  it('are compacted in steps of 20,000 rows that leave the version as it is', async () => {
    const { name } = await version();
    const changes: number[] = [];
    let last: string | undefined = INT64_MIN;
    while (last !== undefined) {
      last = await compactFrom(last);
      const after = await version();
      expect(after.name).toBe(name);
      changes.push(after.changes);
    }
    expect(changes.slice(0, 2)).toEqual([CHANGES - 19_999, CHANGES - 39_998]);
    expect(changes.at(-1)).toBe(1);
  });

  it('are compacted by the service after a list', async () => {
    const { name } = await version();
    expect((await list('gzip')).ids).toEqual(['1']);
    await waitFor(async () => (await version()).changes === 1, 'the changes are compacted');
    expect((await version()).name).toBe(name);
  });
});

describe('a list of more blocks than are named', () => {
  const ORDERS = 50_001;
  const IDS = Array.from({ length: ORDERS }, (_, n) => String((n + 1) * 2 ** 22));

  it('has a version without blocks, and is complete and current in either encoding', async () => {
    await context.service.db.query(
      `INSERT INTO orders (id, pet_id, quantity) SELECT n::bigint << 22, 1, 1 FROM generate_series(1, ${ORDERS}) AS n`,
    );
    const { blocks, span } = await version();
    expect([blocks, span]).toEqual([[], { first: 256n, last: 256n * BigInt(ORDERS) }]);
    const plain = await list('identity');
    const compressed = await list('gzip');
    expect(plain.ids).toEqual(IDS);
    expect(compressed).toEqual(plain);
    await context.service.db.query('INSERT INTO orders (id, pet_id, quantity) VALUES (1, 1, 1)');
    const after = await list('gzip');
    expect(after.etag).not.toBe(plain.etag);
    expect(after.ids).toEqual(['1', ...IDS]);
  });
});
