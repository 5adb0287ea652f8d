import { createServer } from 'node:net';
import { expect, it } from 'vitest';
import { choosePort, freePort } from './port.ts';

it('takes the requested port, else the usual one, else a free one, and never that of the other choice', async () => {
  const [requested, usual] = [await freePort(), await freePort()];
  const said: string[] = [];
  const choose = (wanted: number | undefined, other: number, reserved?: number) =>
    choosePort(wanted, other, 'port', reserved, (sentence) => said.push(sentence));
  expect(await choose(requested, usual)).toBe(requested);
  expect(await choose(undefined, usual, requested)).toBe(usual);
  expect(said).toEqual([]);
  const chosen = await choose(undefined, usual, usual);
  expect(chosen).not.toBe(usual);
  expect(said).toEqual([`Port ${usual} is in use: using ${chosen} instead.`]);
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(usual, '127.0.0.1', resolve));
  expect(await choose(undefined, usual, requested)).not.toBe(usual);
  await expect(choose(usual, requested)).rejects.toThrow(`port ${usual} cannot be used`);
  server.close();
});
