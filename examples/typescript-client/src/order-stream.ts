import { TokenParser, Tokenizer } from '@streamparser/json';
import { IncompleteListError } from './errors.ts';
import type { components } from './interface.ts';

/** An order; its ids are exact. */
export type Order = components['schemas']['Order'];

/** What a field is called whose value is an int64. */
const INT64_FIELDS = ['id', 'petId'] as const;

/** Keeps the digits of whole numbers that a JavaScript number would round. */
class ExactTokenizer extends Tokenizer {
  protected override parseNumber(text: string): number {
    const value = Number(text);
    // The parser passes on whatever it is given; its type knows numbers only.
    return Number.isSafeInteger(value) ? value : (BigInt(text) as unknown as number);
  }
}

/**
 * The orders of a list as they arrive: however long it is, no more of it is held than one chunk.
 * @throws {IncompleteListError} when the list breaks off or is no list
 */
export async function* readOrders(body: AsyncIterable<Uint8Array>): AsyncGenerator<Order, void, undefined> {
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
    throw asIncomplete(error);
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

function asIncomplete(error: unknown): unknown {
  const { name } = error as Partial<Error>;
  return name === 'AbortError' || name === 'TimeoutError'
    ? error
    : new IncompleteListError('The list broke off.', { cause: error });
}
