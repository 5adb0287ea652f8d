import { parameters, paths } from './operations.ts';
import { headers } from './responses.ts';
import { bodySchemas } from './schemas.ts';

/** Version of the interface: that of the specification, independent of the release. */
export const INTERFACE_VERSION = '1.0.0';

/** Returns the OpenAPI 3.1 document of the API. The service sets its own address and the e-mail address of the contact. */
export function openApiDocument() {
  return {
    openapi: '3.1.0',
    info: {
      title: 'Hotel data API',
      version: INTERFACE_VERSION,
      summary: 'Hotel records as JSON: one hotel, a list, or up to 1000 hotels in one request',
      description:
        'A read-only API. Every operation requires an API key in the header `x-api-key`. A key without the `registry` scope ' +
        'gets 403 from the operations that require it, and sees `registry_id` as null in all others. `HEAD` is `GET` without ' +
        'the body. Every error of the API has the body `{"error": "…"}` and a code in the header `x-error-code`. The HTTP library answers ' +
        'what is not HTTP/1.1, has no `Host`, or has more than 4 KiB of request line and headers or more than 98 headers: with ' +
        '400, 431 or 505 in HTML and without a code, or not at all. ' +
        'Checks run in this order: framing, path and method, key, rate limit, scope, size and coding of the body, values, existence. ' +
        'Responses may gain fields; nothing is removed or renamed without a new major version at another address.',
      license: { name: 'MIT', identifier: 'MIT' },
      contact: { name: 'The operator of the service' },
    },
    servers: [{ url: '/', description: 'This service' }],
    security: [{ apiKey: [] }],
    tags: [
      { name: 'Hotels', description: 'The list, and hotels by id' },
      { name: 'Channel', description: 'Hotels by the identifiers of the channel integration' },
      { name: 'Key', description: 'Your API key' },
      { name: 'Mirror', description: 'A copy of all hotels, kept up to date' },
      { name: 'Registry', description: 'Hotels by the identifiers of the property registry' },
    ],
    paths: paths(),
    components: {
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'x-api-key',
          description: 'Issued by the operator of the service. Keep it out of the code of your application',
        },
      },
      parameters,
      headers,
      schemas: bodySchemas(),
    },
  };
}
