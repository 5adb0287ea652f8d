/**
 * Sends a response of this length to a client that does not read it. Prints how many of its bytes the kernel has taken after a second
 * without another one.
 */
import { connect } from 'node:net';
import { App } from '../../src/http/library.ts';

const PORT = 8080;
const QUIET_MS = 1_000;

const body = Buffer.alloc(Number(process.argv[2]), '0');
App()
  .get('/*', (response) => {
    response.onAborted(() => {});
    const ended = () => {
      console.log(response.getWriteOffset());
      process.exit();
    };
    let quiet = setTimeout(ended, QUIET_MS);
    response.tryEnd(body, body.length);
    response.onWritable((offset) => {
      clearTimeout(quiet);
      quiet = setTimeout(ended, QUIET_MS);
      return response.tryEnd(body.subarray(offset), body.length)[0];
    });
  })
  .listen(PORT, () => {
    connect(PORT, '127.0.0.1').pause().write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  });
