import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { choosePort, freePort } from './port.ts';

describe('choosePort', () => {
  it('avoids the port of the other choice, although it is still free', async () => {
    const usual = await freePort();
    const said: string[] = [];
    const chosen = await choosePort(undefined, usual, 'admin-port', usual, (sentence) => said.push(sentence));
    expect(chosen).not.toBe(usual);
    expect(said).toEqual([`Port ${usual} is in use: using ${chosen} instead.`]);
  });

  it('takes the requested port, else the usual one, else a free one', async () => {
    const [requested, usual] = [await freePort(), await freePort()];
    const log = () => {};
    expect(await choosePort(requested, usual, 'port', undefined, log)).toBe(requested);
    expect(await choosePort(undefined, usual, 'port', requested, log)).toBe(usual);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(usual, '127.0.0.1', resolve));
    expect(await choosePort(undefined, usual, 'port', requested, log)).not.toBe(usual);
    await expect(choosePort(usual, requested, 'port', undefined, log)).rejects.toThrow(
      `port ${usual} cannot be used`,
    );
    server.close();
  });
});
