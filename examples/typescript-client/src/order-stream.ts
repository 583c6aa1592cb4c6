import { TokenParser, Tokenizer } from '@streamparser/json';
import { IncompleteListError } from './errors.ts';
import type { components } from './interface.ts';

/** An order with exact ids. */
export type Order = components['schemas']['Order'];

/** The int64 fields. */
const INT64_FIELDS = ['id', 'petId'] as const;

/** Returns integers that a JavaScript number would round as BigInt. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    const value = Number(text);
    // The parser passes any value through, but its type allows only numbers.
    return Number.isSafeInteger(value) ? value : (BigInt(text) as unknown as number);
  }
}

/**
 * Yields the orders of a list as they arrive. Only one chunk is in memory at a time.
 * @throws {IncompleteListError} when the list is interrupted or invalid
 */
export async function* readOrders(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
): AsyncGenerator<Order, void, undefined> {
  let arrived: Order[] = [];
  const tokenizer = new ExactTokenizer();
  const parser = new TokenParser({ paths: ['$.*'], keepStack: false });
  tokenizer.onToken = (token) => {
    parser.write(token);
  };
  parser.onValue = ({ value }) => arrived.push(withExactIds(value as Record<string, unknown>));
  try {
    for await (const chunk of body) {
      tokenizer.write(chunk);
      const orders = arrived;
      arrived = [];
      yield* orders;
    }
  } catch (error) {
    // The caller's own abort is not an error of the list.
    signal?.throwIfAborted();
    throw new IncompleteListError('The list was interrupted.', { cause: error });
  }
  if (!parser.isEnded) {
    throw new IncompleteListError('The list ended before its closing bracket.');
  }
}

function withExactIds(order: Record<string, unknown>): Order {
  for (const field of INT64_FIELDS) {
    const value = order[field];
    if (typeof value === 'number') {
      order[field] = BigInt(value);
    }
  }
  return order;
}
