import { expect, it } from 'vitest';
import { publicErrors } from './errors.ts';

it('every public error has a status, and a body of JSON with its sentence alone', () => {
  for (const { status, sentence, body } of Object.values(publicErrors)) {
    expect([400, 401, 403, 404, 405, 408, 410, 413, 415, 429, 500, 503]).toContain(status);
    expect(JSON.parse(body.toString())).toEqual({ error: sentence });
    expect(sentence).toMatch(/^[A-Z][^\n]*[^.]$|^[a-z_]+ must [^\n]*[^.]$/);
  }
});

it('the sentences of specification and contract are verbatim', () => {
  const said = Object.fromEntries(
    Object.entries(publicErrors).map(([code, { status, sentence }]) => [code, `${status} ${sentence}`]),
  );
  expect(said).toMatchObject({
    registryIdNotInteger: '400 registry_id must be an integer',
    bodyNotJson: '400 Request body must be valid JSON',
    channelIdsMissing: '400 Request body must include a `channel_ids` array',
    registryIdsMissing: '400 Request body must include a `registry_ids` array',
    unauthorized: '401 Unauthorized',
    forbidden: '403 Forbidden',
    hotelNotFound: '404 Hotel not found',
    pathNotFound: '404 Not found',
    internal: '500 Internal server error',
    unavailable: '503 Service unavailable',
  });
});

it('the codes are published names, which never change', () => {
  expect(Object.values(publicErrors).map(({ code }) => code)).toEqual([
    'registry_id_not_integer',
    'limit_out_of_bounds',
    'changes_limit_out_of_bounds',
    'wait_out_of_bounds',
    'after_not_token',
    'offset_out_of_bounds',
    'body_not_json',
    'channel_ids_missing',
    'registry_ids_missing',
    'channel_id_not_string',
    'too_many_channel_ids',
    'too_many_registry_ids',
    'body_not_allowed',
    'framing_ambiguous',
    'unauthorized',
    'forbidden',
    'hotel_not_found',
    'path_not_found',
    'method_not_allowed',
    'body_too_slow',
    'token_expired',
    'body_too_large',
    'content_encoding_not_supported',
    'too_many_requests',
    'internal',
    'unavailable',
  ]);
});
