import { createServer } from 'node:net';

/** True when nobody listens on the port, neither on all addresses nor on the loopback. */
export async function isFree(port: number): Promise<boolean> {
  try {
    for (const host of ['0.0.0.0', '127.0.0.1']) await listen(port, host);
    return true;
  } catch {
    return false;
  }
}

/** A port of the loopback that was free a moment ago. */
export function freePort(): Promise<number> {
  return listen(0, '127.0.0.1');
}

function listen(port: number, host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen({ port, host, exclusive: true }, () => {
      const address = server.address() as { port: number };
      server.close(() => resolve(address.port));
    });
  });
}

/**
 * The port that was asked for, else the usual one, else, where that is taken or `spoken` for, a free one: then `say` is
 * told. Throws when the port that was asked for is taken.
 */
export async function choosePort(
  asked: number | undefined,
  usual: number,
  option: string,
  spoken: number | undefined,
  say: (sentence: string) => void,
): Promise<number> {
  if (asked !== undefined) {
    if (await isFree(asked)) return asked;
    throw new Error(`port ${asked} cannot be used here; give --${option} another, or leave it out`);
  }
  if (usual !== spoken && (await isFree(usual))) return usual;
  let other = await freePort();
  while (other === spoken) other = await freePort();
  say(`Port ${usual} is taken: using ${other} instead.`);
  return other;
}
