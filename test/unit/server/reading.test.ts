import { Socket } from 'node:net';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { readInSlices } from '../../../src/server/reading.js';

describe('a connection that is read in slices', () => {
  let allowed = 0;
  let taken = 0;
  const connection = new Socket();
  const readOn = readInSlices(connection, () => taken < allowed);
  connection.on('data', () => taken++);

  async function takenWith(slices: number): Promise<number> {
    allowed = slices;
    readOn();
    await nextTurn();
    return taken;
  }

  it('hands on one slice per permission, however much has been received at once', async () => {
    connection.push(Buffer.alloc(65_536));
    expect([await takenWith(3), await takenWith(5), await takenWith(20)]).toEqual([3, 5, 20]);
  });

  it('hands nothing on while it is paused, and everything afterwards', async () => {
    connection.pause();
    expect(await takenWith(Infinity)).toBe(20);
    connection.resume();
    await nextTurn();
    await nextTurn();
    expect(taken).toBe(64);
  });
});
