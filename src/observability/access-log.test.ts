import pino from 'pino';
import { expect, it } from 'vitest';
import { AccessLog } from './access-log.ts';

it('a failure whose client has disconnected is logged as one, without a status', () => {
  const lines: unknown[] = [];
  const log = pino({ level: 'info' }, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const accessLog = new AccessLog(log, { sample: 0, slowMs: 1e9, onSuppressed: () => {} });
  const counter = { route: 'list', method: 'GET' } as const;
  const request = { requestId: 'r', trace: undefined, counter, principal: undefined };
  for (const fault of [undefined, new Error('lost')]) accessLog.finished({ ...request, fault }, 0, 0.01, 0);
  expect(lines).toMatchObject([{ msg: 'request failed', aborted: true, err: { message: 'lost' } }]);
});
