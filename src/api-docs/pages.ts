import { readFile } from 'node:fs/promises';
import { StaticPage } from '../http/static-page.ts';
import { ASSETS, EXAMPLE_FILES, readExample } from './assets.ts';
import type { Deployment } from './openapi.ts';

/** Content security policy: everything is loaded from and sent to the service itself, and no page may frame it. */
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

const PAGE_HEADERS = '\r\ncache-control: public, no-cache\r\nx-content-type-options: nosniff';
const CSS = 'text/css; charset=utf-8';
const JAVASCRIPT = 'text/javascript; charset=utf-8';

/** Folders of the own files of the page, and of the library that shows the reference. */
const OWN = new URL('page/', import.meta.url).href;
const LIBRARY = import.meta.resolve('swagger-ui-dist/package.json');

type NamedPage = [path: string, page: StaticPage];

/**
 * Returns the public pages by path: the OpenAPI document, the documentation and its files. What makes the documents is loaded
 * at their first request, because a worker starts faster without it.
 */
export function pagesOf(deployment: Deployment): Map<string, StaticPage> {
  const guide = new StaticPage(
    'text/html; charset=utf-8',
    `${PAGE_HEADERS}\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: ${SECURITY_POLICY}`,
    async () => Buffer.from((await import('./guide.ts')).renderGuide(deployment)),
  );
  const openApi = new StaticPage('application/json', PAGE_HEADERS, async () =>
    Buffer.from((await import('./openapi.ts')).openApiDocument(deployment)),
  );
  return new Map([
    ['/openapi.json', openApi],
    ['/docs', guide],
    ['/docs/', guide],
    asset(OWN, 'page.css', CSS),
    asset(OWN, 'page.js', JAVASCRIPT),
    asset(LIBRARY, 'swagger-ui.css', CSS),
    asset(LIBRARY, 'swagger-ui-bundle.js', JAVASCRIPT),
    ...EXAMPLE_FILES.map(
      (name): NamedPage => [
        `/docs/examples/${name}`,
        new StaticPage('text/plain; charset=utf-8', PAGE_HEADERS, () => Buffer.from(readExample(name))),
      ],
    ),
  ]);
}

function asset(folder: string, name: string, type: string): NamedPage {
  return [`${ASSETS}/${name}`, new StaticPage(type, PAGE_HEADERS, () => readFile(new URL(name, folder)))];
}
