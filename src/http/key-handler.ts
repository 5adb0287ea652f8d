import { readKeyDetails } from '../auth/key-details.ts';
import { publicErrors } from '../errors.ts';
import type { Origin } from '../postgres/origin.ts';
import { tagOf } from './head.ts';
import type { GetRouteDefinition } from './routes.ts';

/** Creates the handler of `GET /key`, which describes the key of the request and never contains it. */
export function keyOperation(origin: Origin): GetRouteDefinition {
  return {
    route: 'key',
    read: () => '',
    needsRegistry: () => false,
    respond: async (exchange) => {
      const details = await readKeyDetails(origin, exchange.owner);
      if (!details) return exchange.fail(publicErrors.unauthorized);
      const body = Buffer.from(JSON.stringify(details));
      exchange.ok(body, tagOf(body));
    },
  };
}
