import { hash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { Page } from '../http/page.ts';
import { EXAMPLES, readExample, renderGuide } from './guide.ts';
import { type Deployment, openApiDocument } from './openapi.ts';

/** Nothing is loaded, sent or framed but from and to the service itself. */
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

const ALWAYS_ASK = '\r\ncache-control: public, no-cache\r\nx-content-type-options: nosniff';
const FOR_EVER = '\r\ncache-control: public, max-age=31536000, immutable\r\nx-content-type-options: nosniff';
const CSS = 'text/css; charset=utf-8';
const JAVASCRIPT = 'text/javascript; charset=utf-8';

/** What anybody may see, by path: the OpenAPI document, the documentation, and what that loads. */
export function pagesOf(deployment: Deployment): Map<string, Page> {
  const own = { 'page.css': ownFile('page/page.css'), 'page.js': ownFile('page/page.js') };
  const library = import.meta.resolve('swagger-ui-dist/package.json');
  // the address names the bytes, so they may be kept for ever: the library's are those of its version
  const versions = Buffer.concat([...Object.values(own), readFileSync(fileURLToPath(library))]);
  const assets = `/docs/assets/${hash('sha1', versions, 'base64url').slice(0, 12)}`;
  const guide = new Page(
    `text/html; charset=utf-8${ALWAYS_ASK}\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: ${SECURITY_POLICY}`,
    () => Buffer.from(renderGuide(deployment, deployment.basePath + assets)),
  );
  const fromLibrary = (name: string) => () => readFile(fileURLToPath(new URL(name, library)));
  return new Map([
    [
      '/openapi.json',
      new Page(`application/json${ALWAYS_ASK}\r\naccess-control-allow-origin: *`, () =>
        Buffer.from(openApiDocument(deployment)),
      ),
    ],
    ['/docs', guide],
    ['/docs/', guide],
    [`${assets}/page.css`, new Page(CSS + FOR_EVER, () => own['page.css'])],
    [`${assets}/page.js`, new Page(JAVASCRIPT + FOR_EVER, () => own['page.js'])],
    [`${assets}/swagger-ui.css`, new Page(CSS + FOR_EVER, fromLibrary('swagger-ui.css'))],
    [`${assets}/swagger-ui-bundle.js`, new Page(JAVASCRIPT + FOR_EVER, fromLibrary('swagger-ui-bundle.js'))],
    ...EXAMPLES.map(
      (name) =>
        [
          `/docs/examples/${name}`,
          new Page(`text/plain; charset=utf-8${ALWAYS_ASK}`, () => Buffer.from(readExample(name))),
        ] as const,
    ),
  ]);
}

function ownFile(name: string): Buffer {
  return readFileSync(new URL(name, import.meta.url));
}
