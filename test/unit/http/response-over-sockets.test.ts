import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect } from 'node:net';
import { abortResponse } from '../../../src/http/response.js';
import { listen } from '../../helpers/listen.js';
import { parseResponses, requestText } from '../../helpers/wire.js';

describe('abortResponse', () => {
  it.each([false, true])(
    'sends pipelined responses before it and closes the connection (body: %s)',
    async (withBody) => {
      let first: ServerResponse | undefined;
      const server = createServer((_req, res) => {
        if (first === undefined) {
          first = res;
          return;
        }
        res.writeHead(200);
        if (withBody) {
          res.write('[');
        }
        abortResponse(res);
        setImmediate(() => first?.end('first'));
      });
      const socket = connect(await listen(server), '127.0.0.1');
      const received: Buffer[] = [];
      socket.on('data', (chunk: Buffer) => received.push(chunk));
      socket.write(requestText('GET', '/').repeat(2));
      await once(socket, 'close');
      expect(parseResponses(Buffer.concat(received), false, []).map(({ body }) => body)).toEqual(['first']);
      server.close();
    },
  );
});
