/**
 * Routes by which requests are counted, and their paths, as the label `http_route` names them. `page` covers the pages
 * without a key, `other` every unknown path and method.
 */
export const HTTP_ROUTES = {
  list: '/hotels',
  changes: '/changes',
  hotel: '/hotels/{id}',
  hotel_by_channel: '/hotels/channel/{channel_id}',
  hotel_by_registry: '/hotels/registry/{registry_id}',
  batch: '/hotels/batch',
  batch_by_channel: '/hotels/channel/batch',
  batch_by_registry: '/hotels/registry/batch',
  key: '/key',
  page: 'page',
  other: 'other',
} as const;
export type Route = keyof typeof HTTP_ROUTES;
export const ROUTES = Object.keys(HTTP_ROUTES) as Route[];
