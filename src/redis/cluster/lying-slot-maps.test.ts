import type { Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { realClocks, showMonotonic } from '../../lib/clock.fixture.ts';
import { waitUntilReady } from '../client.ts';
import { FakeServer } from '../fake-server.fixture.ts';
import { RedisCluster } from './client.ts';
import { MAX_MASTERS } from './slot-map.ts';

const TIMEOUT_MS = 60_000;

let server: FakeServer;
let redis: RedisCluster;
let slotMap = '';
let asked = 0;

beforeEach(async () => {
  asked = 0;
  // a map may name any address of the loopback
  server = await FakeServer.start('0.0.0.0');
  server.answer = (socket: Socket, [name]: string[]) => {
    if (name === 'cluster') asked++;
    socket.write(name === 'cluster' ? slotMap : '*1\r\n$1\r\na\r\n');
  };
});
afterEach(async () => {
  realClocks();
  redis.close();
  await server.close();
});

const node = (host: string, port: number | string) => `*2\r\n$${host.length}\r\n${host}\r\n:${port}\r\n`;
const range = (from: number | string, to: number | string, ...nodes: string[]) =>
  `*${2 + nodes.length}\r\n:${from}\r\n:${to}\r\n${nodes.join('')}`;
const MOVED = '-MOVED 0 127.0.0.1:1\r\n';
/** Any key that the maps of many masters have. */
const KEY_OF_SLOT_0 = '3560';
const NODE = node('h', 1);
const nodes = (count: number) => Array.from({ length: count }, (_, i) => node('h', i));
const mapOf = (...ranges: string[]) => `*${ranges.length}\r\n${ranges.join('')}`;

const MAPS: Record<string, string> = {
  'of null': '*-1\r\n',
  'that is a number': ':7\r\n',
  'of a range that is null': mapOf('*-1\r\n'),
  'of a node that is null': mapOf(range(0, 1, '*-1\r\n')),
  'of a node that is null beside others': mapOf(range(0, 1, '*-1\r\n'), range(2, 3, NODE)),
  'of a trillion slots': mapOf(range(0, 1_000_000_000_000, NODE)),
  'of slots below zero': mapOf(range(-1_000_000_000_000, 1, NODE)),
  'of the same slots often': mapOf(...Array(1_000).fill(range(0, 16_383, NODE))),
  'of a host that is a list': mapOf(range(0, 1, '*2\r\n*0\r\n:1\r\n')),
  'of a host of two lines': mapOf(range(0, 1, node('a\nb', 1))),
  'of a host that Node rejects': mapOf(range(0, 1, node('a\0b', 1))),
  'of a port that is none': mapOf(range(0, 1, node('h', 65_536))),
  'without slots': mapOf(),
  'of slots without a master': mapOf(range(0, 16_383)),
  'of more masters than connections': mapOf(...nodes(101).map((each, i) => range(i, i, each))),
  'behind another reply': `$-1\r\n${mapOf(range(0, 1, NODE))}`,
  'behind a push': `>1\r\n_\r\n${mapOf(range(0, 1, NODE))}`,
  'and a second reply': `${mapOf()}$-1\r\n`,
};

it.each(Object.entries(MAPS))(
  'a slot map %s is never an exception, and the next one is used',
  async (_, map) => {
    slotMap = map;
    redis = new RedisCluster([server.url, server.url], TIMEOUT_MS, () => {});
    await expect.poll(() => asked).toBeGreaterThan(2);
    slotMap = mapOf(range(0, 16_383, node('127.0.0.1', new URL(server.url).port)));
    expect(await waitUntilReady(redis, TIMEOUT_MS)).toBe(true);
    expect(String(await redis.read('k'))).toBe('a');
  },
);

it('maps that name other masters each time open a bounded number of connections', async () => {
  // the five seconds are not over, however long this takes
  showMonotonic(() => 1_000_000 + 200 * asked);
  let named = 0;
  const other = () => node(`127.0.${++named >> 8}.${named & 255}`, new URL(server.url).port);
  server.answer = (socket: Socket, [name]: string[]) => {
    if (name === 'cluster') asked++;
    socket.write(
      name === 'cluster' ? mapOf(...Array.from({ length: 40 }, (_, i) => range(i, i, other()))) : MOVED,
    );
  };
  redis = new RedisCluster([server.url, server.url], TIMEOUT_MS, () => {});
  const moved = async () => {
    await redis.read('k');
    await redis.read(KEY_OF_SLOT_0);
    return asked;
  };
  // the third map names more than may be opened within five seconds
  await expect.poll(moved).toBeGreaterThan(3);
  // those of the masters, and of the address at first and after each map
  expect(server.connections).toBeLessThanOrEqual(2 * (MAX_MASTERS + 1 + asked));
});
