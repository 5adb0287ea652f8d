import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import postgres from 'postgres';
import { expect, it } from 'vitest';
import { openDetected } from './logins.ts';

/** ErrorResponse of the protocol of PostgreSQL, version 3. */
function errorResponse(code: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`);
  const head = Buffer.from('E....');
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}

it('after an error of the server nothing is known of a pooler, and the error is thrown', async () => {
  const server = createServer((socket) => {
    socket.on('error', () => {}).once('data', () => socket.end(errorResponse('57P03', 'starting up')));
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const open = () => postgres({ host: '127.0.0.1', port, max: 1, username: 'a', database: 'a' });
  await expect(openDetected(open)).rejects.toThrow('starting up');
  server.close();
});
