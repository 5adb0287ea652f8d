import { createServer } from 'node:net';
import { describe, expect, it } from 'vitest';
import { choosePort, freePort } from './port.ts';

describe('a port is chosen', () => {
  it('that the other choice has not taken, though nobody listens there yet', async () => {
    const usual = await freePort();
    const said: string[] = [];
    const chosen = await choosePort(undefined, usual, 'admin-port', usual, (sentence) => said.push(sentence));
    expect(chosen).not.toBe(usual);
    expect(said).toEqual([`Port ${usual} is taken: using ${chosen} instead.`]);
  });

  it('as it was asked for, as usual, or else free', async () => {
    const [asked, usual] = [await freePort(), await freePort()];
    const say = () => {};
    expect(await choosePort(asked, usual, 'port', undefined, say)).toBe(asked);
    expect(await choosePort(undefined, usual, 'port', asked, say)).toBe(usual);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(usual, '127.0.0.1', resolve));
    expect(await choosePort(undefined, usual, 'port', asked, say)).not.toBe(usual);
    await expect(choosePort(usual, asked, 'port', undefined, say)).rejects.toThrow(
      `port ${usual} cannot be used`,
    );
    server.close();
  });
});
