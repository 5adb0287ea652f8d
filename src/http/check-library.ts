import * as uws from 'uWebSockets.js';
import { connect } from 'node:net';
import { App, us_listen_socket_close } from './library.ts';

/** Names of uWebSockets.js that the service uses. Builds of the library differ, and its types omit some. */
export const USED_NAMES = {
  module: ['App', '_cfg', 'us_listen_socket_close'],
  app: ['any', 'close', 'filter', 'get', 'head', 'listen', 'post'],
  response: [
    ...['close', 'cork', 'end', 'endWithoutBody', 'getWriteOffset', 'onAborted', 'onData', 'onWritable'],
    ...['tryEnd', 'writeStatus'],
  ],
  request: ['forEach', 'getCaseSensitiveMethod', 'getParameter', 'getQuery'],
};

/** Returns the names that the installed build lacks, which answers one request on the loopback for it. */
export function missingNames(): Promise<string[]> {
  const { promise, resolve, reject } = Promise.withResolvers<string[]>();
  const app = App();
  app.any('/*', (response, request) => {
    const module = { ...uws, ...(uws as { default?: object }).default };
    const lacking = (part: keyof typeof USED_NAMES, subject: object) =>
      USED_NAMES[part]
        .filter((name) => typeof Reflect.get(subject, name) !== 'function')
        .map((name) => `${part}.${name}`);
    resolve([
      ...lacking('module', module),
      ...lacking('app', app),
      ...lacking('response', response),
      ...lacking('request', request),
    ]);
    response.end();
  });
  app.listen('127.0.0.1', 0, (socket) => {
    if (!socket) return reject(new Error('cannot listen on the loopback'));
    const client = connect(uws.us_socket_local_port(socket as never), '127.0.0.1');
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    client.once('data', () => {
      client.destroy();
      us_listen_socket_close(socket);
    });
  });
  return promise;
}

if (import.meta.main) {
  const missing = await missingNames();
  if (missing.length > 0) throw new Error(`uWebSockets.js lacks ${missing.join(', ')}`);
}
