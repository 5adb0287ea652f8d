/**
 * Sends a response of this length to a client that does not read it. Prints how many of its bytes the kernel has taken after a second
 * without another one.
 */
import { App } from '../../src/http/server.ts';
import { RawConnection } from '../support/raw-connection.ts';

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
    const connection = new RawConnection(PORT);
    connection.pause();
    void connection.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
  });
