import { deflate } from '../../../../src/orders/list/gzip.js';
import { ImageBuilder, ImageMemory, sizeOf } from '../../../../src/orders/list/image-memory.js';
import {
  type ImageChunk,
  imageOf,
  joinSmall,
  type ListImage,
  type Piece,
} from '../../../../src/orders/list/list-image.js';

function chunkOf(bytes: number): ImageChunk {
  return { deflated: Buffer.alloc(bytes), crc: 0, length: bytes, holders: 0 };
}

function pieceOf(rows: number, block = 0, chunks: readonly ImageChunk[] = []): Piece {
  return { block, rows, chunks };
}

describe('small pieces', () => {
  it.each([
    [[], []],
    [[3], [3]],
    [
      [3, 4, 5],
      [7, 5],
    ],
    [
      [4, 4],
      [4, 4],
    ],
    [[1, 1, 1, 1, 1], [5]],
    [
      [16, 1, 16],
      [16, 1, 16],
    ],
    [[7, 1], [8]],
    [
      [8, 1, 1],
      [8, 2],
    ],
  ])('are joined while two have at most twice the minimum of 4: %j', (rows, joined) => {
    const pieces = rows.map((count, block) => pieceOf(count, block, [chunkOf(block)]));
    const result = joinSmall(pieces, 4);
    expect(result.map((piece) => piece.rows)).toEqual(joined);
    // Nothing is lost, in the same order, and each piece begins where its first one did.
    expect(result.flatMap(({ chunks }) => chunks)).toEqual(pieces.flatMap(({ chunks }) => chunks));
    expect(result.map(({ block }) => block)).toEqual(result.map(({ chunks }) => chunks[0]!.length));
  });
});

describe('the memory of images', () => {
  const SIZE = sizeOf(chunkOf(1_000));
  let memory: ImageMemory;
  let shared: ImageChunk;
  beforeEach(() => {
    memory = new ImageMemory(4 * SIZE);
    shared = chunkOf(1_000);
  });

  /** An image of the shared chunk and others. */
  function image(name: string, others: number): ListImage {
    const chunks = [shared, ...Array.from({ length: others }, () => chunkOf(1_000))];
    return imageOf(name, [pieceOf(1, 0, chunks)]);
  }

  /** Whether so many more chunks have room. */
  function hasRoomFor(count: number): boolean {
    const chunks = Array.from({ length: count }, () => chunkOf(1_000));
    chunks.forEach((chunk) => {
      memory.hold(chunk);
    });
    const fits = !memory.isFull;
    memory.free(chunks);
    return fits;
  }

  it('counts a chunk that images share once, and frees it with the last of them', () => {
    const [one, other] = [image('one', 1), image('other', 1)];
    memory.current = one;
    const release = memory.use(one, () => undefined);
    memory.current = other;
    expect([hasRoomFor(1), hasRoomFor(2)]).toEqual([true, false]);
    release();
    release();
    expect([hasRoomFor(2), hasRoomFor(3)]).toEqual([true, false]);
    memory.current = undefined;
    expect([hasRoomFor(4), hasRoomFor(5)]).toEqual([true, false]);
  });

  it('cuts the responses of the oldest image and no others, until there is room, and never those of the current one', () => {
    const cut: string[] = [];
    const images = ['first', 'second', 'third'].map((name) => image(name, 1));
    const releases = images.map((each) => {
      memory.current = each;
      return memory.use(each, () => cut.push(String(each.name)));
    });
    const more = [chunkOf(1_000), chunkOf(1_000)];
    memory.makeRoom();
    expect(cut).toEqual([]);
    memory.hold(more[0]!);
    memory.makeRoom();
    expect([cut, memory.isFull]).toEqual([['first'], false]);
    memory.hold(more[1]!);
    memory.makeRoom();
    expect([cut, memory.isFull]).toEqual([['first', 'second'], false]);
    memory.hold(chunkOf(10_000));
    memory.makeRoom();
    expect([cut, memory.isFull]).toEqual([['first', 'second'], true]);
    releases.forEach((release) => {
      release();
    });
    expect(memory.current).toBe(images[2]);
  });

  it('leaves no chunk held when a build is given up half-way, also while chunks are compressed', async () => {
    const builder = new ImageBuilder(memory, 2 * SIZE, true);
    builder.take(pieceOf(1, 0, [shared]));
    const chunks = [1, 2, 3, 4, 5].map((block) => ({ bytes: Buffer.alloc(100_000, block), rows: 1, block }));
    for (const chunk of chunks) {
      await builder.add(chunk);
    }
    await builder.close();
    // Their memory has been freed.
    expect(chunks.map(({ bytes }) => bytes.length)).toEqual([0, 0, 0, 0, 0]);
    expect(shared.holders).toBe(0);
    expect([hasRoomFor(4), hasRoomFor(5)]).toEqual([true, false]);
  });

  it('gives the pieces in the order in which they were read, however long each takes to compress', async () => {
    const builder = new ImageBuilder(memory, 1_000_000, true);
    const sizes = [900_000, 10, 500_000, 20, 30];
    for (const [block, size] of sizes.entries()) {
      await builder.add({ bytes: Buffer.alloc(size, 'x'), rows: 1, block: block % 2 === 0 ? block : undefined });
    }
    const pieces = await builder.pieces();
    expect(pieces.map(({ block, rows, chunks }) => [block, rows, chunks.map(({ length }) => length)])).toEqual([
      [0, 2, [900_000, 10]],
      [2, 2, [500_000, 20]],
      [4, 1, [30]],
    ]);
    expect(pieces[0]!.chunks[1]).toMatchObject(await deflate(Buffer.alloc(10, 'x')));
    await builder.close();
  });

  it('does not hold a build that cuts nobody while older images leave no room', async () => {
    const old = image('old', 3);
    const cut = jest.fn();
    memory.use(old, cut);
    const builder = new ImageBuilder(memory, 4 * SIZE, false);
    expect(builder.fits).toBe(true);
    await builder.add({ bytes: Buffer.alloc(1_000), rows: 1, block: 0 });
    await builder.pieces();
    expect([builder.fits, cut.mock.calls.length]).toEqual([false, 0]);
    await builder.close();
  });
});
