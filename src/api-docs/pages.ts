import type { Encoding } from '../http/compression.ts';
import { StaticPage } from '../http/static-page.ts';
import { nextIteration } from '../lib/clock.ts';
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

/**
 * Page that is sent in the next iteration of the event loop, although it is ready: the HTTP library would answer a client that
 * pipelines in one iteration, for as long as it sends. A request behind one that waits closes the connection.
 */
class PublicPage extends StaticPage {
  override async read(encoding: Encoding | undefined): ReturnType<StaticPage['read']> {
    await nextIteration();
    return super.read(encoding);
  }
}

type Entry = [path: string, page: StaticPage];

/** Returns the public pages by path: the OpenAPI document, the documentation and its files. */
export function pagesOf(documents: Documents): Map<string, StaticPage> {
  const guide = new PublicPage(
    'text/html; charset=utf-8',
    `${HEADERS}\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: ${SECURITY_POLICY}`,
    () => Buffer.from(documents.guide),
  );
  return new Map([
    ['/openapi.json', new PublicPage('application/json', HEADERS, () => Buffer.from(documents.openApi))],
    ['/docs', guide],
    ['/docs/', guide],
    asset('page.css', CSS, () => OWN['page.css']),
    asset('page.js', JAVASCRIPT, () => OWN['page.js']),
    asset('swagger-ui.css', CSS, () => readLibraryFile('swagger-ui.css')),
    asset('swagger-ui-bundle.js', JAVASCRIPT, () => readLibraryFile('swagger-ui-bundle.js')),
    ...EXAMPLES.map(
      (name): Entry => [
        `/docs/examples/${name}`,
        new PublicPage('text/plain; charset=utf-8', HEADERS, () => Buffer.from(readExample(name))),
      ],
    ),
  ]);
}

function asset(name: string, type: string, read: () => Buffer | Promise<Buffer>): Entry {
  return [`${ASSETS}/${name}`, new PublicPage(type, HEADERS, read)];
}
