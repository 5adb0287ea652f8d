import { pino } from 'pino';
import type { ApiKeyCache } from '../auth/api-key-cache.ts';
import { UsageCounter } from '../auth/usage.ts';
import { HotelSizes } from '../hotels/hotel-sizes.ts';
import { EventLoop } from '../lib/event-loop.ts';
import { AccessLog } from '../observability/access-log.ts';
import { Metrics } from '../observability/metrics.ts';
import type { RateLimiter } from '../rate-limit/limiter.ts';
import { ConnectionTurnover } from './connection-turnover.ts';
import { RequestPipeline } from './request-pipeline.ts';

/** Returns a pipeline with these API keys, none of which has a rate limit. It logs nothing and closes no connection. */
export function pipelineFor(apiKeys: ApiKeyCache): RequestPipeline {
  const limiter = {} as RateLimiter;
  const log = new AccessLog(pino({ level: 'silent' }), { sample: 0, slowMs: 1e9, onSuppressed: () => {} });
  const turnover = new ConnectionTurnover(0);
  return new RequestPipeline({
    ...{ apiKeys, limiter, turnover, accessLog: log, compresses: true },
    ...{ metrics: new Metrics(), usage: new UsageCounter() },
    ...{ eventLoop: new EventLoop(), sizes: new HotelSizes() },
  });
}
