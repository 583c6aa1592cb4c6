import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * A value that changes whenever the client reads bytes. The stream alone is not enough: when the send buffer of the kernel
 * is full, Node may write again only after a third of it (often a megabyte) has been acknowledged, which takes a slow client
 * longer than the stall timeout. On Linux the value includes the bytes in that buffer.
 */
export async function clientProgress(socket: Socket): Promise<string> {
  return `${socket.bytesWritten - socket.writableLength}/${await bytesInSendBuffer(socket)}`;
}

async function bytesInSendBuffer(socket: Socket): Promise<string> {
  const { localPort, remoteAddress, remotePort } = socket;
  if (localPort === undefined || remoteAddress === undefined || remotePort === undefined) {
    return '';
  }
  const address = ipaddr.parse(remoteAddress).toByteArray();
  const table = await readFile(address.length === 4 ? '/proc/net/tcp' : '/proc/net/tcp6', 'latin1').catch(() => '');
  const row = new RegExp(`:${hex(localPort, 4)} ${addressInTable(address)}:${hex(remotePort, 4)} \\w\\w (\\w{8}):`);
  return row.exec(table)?.[1] ?? '';
}

/** The kernel prints an address as 32-bit words in the byte order of the machine, which is little-endian on all we run on. */
function addressInTable(bytes: readonly number[]): string {
  let text = '';
  for (let word = 0; word < bytes.length; word += 4) {
    text += [...bytes.slice(word, word + 4)]
      .reverse()
      .map((byte) => hex(byte, 2))
      .join('');
  }
  return text;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, '0');
}
