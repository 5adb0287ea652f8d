import { StaticPage } from '../http/static-page.ts';
import { ASSETS, EXAMPLES, OWN, readExample, readLibraryFile } from './assets.ts';
import type { Documents } from './documents.ts';

/** Content security policy: everything is loaded from, sent to and framed by the service itself. */
const SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS = '\r\ncache-control: public, no-cache\r\nx-content-type-options: nosniff';
const CSS = 'text/css; charset=utf-8';
const JAVASCRIPT = 'text/javascript; charset=utf-8';

type Entry = [path: string, page: StaticPage];

/** Returns the public pages by path: the OpenAPI document, the documentation and its files. */
export function pagesOf(documents: Documents): Map<string, StaticPage> {
  const guide = new StaticPage(
    'text/html; charset=utf-8',
    `${HEADERS}\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: ${SECURITY_POLICY}`,
    () => Buffer.from(documents.guide),
  );
  return new Map([
    ['/openapi.json', new StaticPage('application/json', HEADERS, () => Buffer.from(documents.openApi))],
    ['/docs', guide],
    ['/docs/', guide],
    asset('page.css', CSS, () => OWN['page.css']),
    asset('page.js', JAVASCRIPT, () => OWN['page.js']),
    asset('swagger-ui.css', CSS, () => readLibraryFile('swagger-ui.css')),
    asset('swagger-ui-bundle.js', JAVASCRIPT, () => readLibraryFile('swagger-ui-bundle.js')),
    ...EXAMPLES.map(
      (name): Entry => [
        `/docs/examples/${name}`,
        new StaticPage('text/plain; charset=utf-8', HEADERS, () => Buffer.from(readExample(name))),
      ],
    ),
  ]);
}

function asset(name: string, type: string, read: () => Buffer | Promise<Buffer>): Entry {
  return [`${ASSETS}/${name}`, new StaticPage(type, HEADERS, read)];
}
