import type { DeflatedBlock } from './gzip-member.js';
import type { ListTransaction } from './list-transaction.js';
import { idRange } from './list-version.js';
import { OrderListEncoder } from './order-list-encoder.js';

/** Size of the chunks of a streamed range. */
const CHUNK_BYTES = 256 * 1_024;

/** A piece of the list's JSON array, without the comma before it. */
export type ListPart =
  | {
      readonly kind: 'block';
      readonly block: DeflatedBlock;
      /** Whether the list ends with it. */ readonly last?: boolean;
    }
  | {
      readonly kind: 'plain';
      readonly bytes: Buffer;
      /** Whether the piece continues the one before it, with its comma. */
      readonly continued: boolean;
      /** To be called once the bytes have been used. */
      release(): void;
    };

export async function* blockParts(
  blocks: readonly (DeflatedBlock | Promise<DeflatedBlock>)[],
): AsyncGenerator<ListPart> {
  for (const [index, block] of blocks.entries()) {
    yield { kind: 'block', block: await block, last: index === blocks.length - 1 };
  }
}

/**
 * Reads a range of blocks at the pace of the consumer.
 * @param count called with the number of rows
 */
export async function* streamRange(
  transaction: ListTransaction,
  { first, last }: { readonly first: bigint; readonly last: bigint },
  count: (rows: number) => void,
): AsyncGenerator<ListPart> {
  const spare: Buffer[] = [];
  const full: Buffer[] = [];
  let continued = false;
  const encoder = new OrderListEncoder(
    (bytes) => full.push(bytes),
    () => spare.pop() ?? Buffer.allocUnsafeSlow(CHUNK_BYTES),
  );
  function* emitted(): Generator<ListPart> {
    for (const bytes of full.splice(0)) {
      yield { kind: 'plain', bytes, continued, release: () => spare.push(Buffer.from(bytes.buffer)) };
      continued = true;
    }
  }
  for await (const chunk of transaction.copy(...idRange(first, last))) {
    encoder.write(chunk);
    yield* emitted();
  }
  encoder.end();
  count(encoder.rows);
  yield* emitted();
}

/** Puts an item that has been read back in front of the rest. */
export async function* startingWith<T>(first: IteratorResult<T>, rest: AsyncIterator<T>): AsyncGenerator<T> {
  for (let next = first; next.done !== true; next = await rest.next()) {
    yield next.value;
  }
}
