import * as uws from 'uWebSockets.js';
import { connect } from 'node:net';
import { App, us_listen_socket_close } from './library.ts';

export type Names = Record<'module' | 'app' | 'response' | 'request', readonly string[]>;

/** Names of uWebSockets.js that the service uses. Builds of the library differ, and its types omit some. */
export const USED_NAMES: Names = {
  module: ['App', '_cfg', 'us_listen_socket_close'],
  app: ['any', 'close', 'filter', 'get', 'head', 'listen', 'post'],
  response: [
    ...['close', 'cork', 'end', 'endWithoutBody', 'getWriteOffset', 'onAborted', 'onData', 'onWritable'],
    ...['tryEnd', 'writeStatus'],
  ],
  request: ['forEach', 'getCaseSensitiveMethod', 'getParameter', 'getQuery', 'getUrl'],
};

/** Returns the names that are missing in a build of the library. */
export function missingIn(names: Names): string[] {
  return (Object.keys(USED_NAMES) as (keyof Names)[]).flatMap((part) =>
    USED_NAMES[part].filter((name) => !names[part].includes(name)).map((name) => `${part}.${name}`),
  );
}

/** Returns the names of the functions of the installed build, which answers one request on the loopback for it. */
export function readNames(): Promise<Names> {
  const { promise, resolve, reject } = Promise.withResolvers<Names>();
  const app = App();
  app.any('/*', (response, request) => {
    resolve({
      module: functionsOf({ ...uws, ...(uws as { default?: object }).default }),
      app: functionsOf(app),
      response: functionsOf(response),
      request: functionsOf(request),
    });
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

function functionsOf(subject: object): string[] {
  const names = Object.getOwnPropertyNames(subject);
  const parent = Object.getPrototypeOf(subject);
  if (parent && parent !== Object.prototype) names.push(...functionsOf(parent));
  return [...new Set(names)].filter((name) => typeof Reflect.get(subject, name) === 'function').sort();
}

if (import.meta.main) {
  const missing = missingIn(await readNames());
  if (missing.length > 0) throw new Error(`uWebSockets.js lacks ${missing.join(', ')}`);
}
