import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import type { Config } from '../config/config.ts';
import { StaticPage } from '../http/static-page.ts';

/** Variables that the documents state. */
export type Deployment = Pick<Config, 'BASE_PATH' | 'PUBLIC_URL' | 'SUPPORT_EMAIL'>;

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
const TEXT = 'text/plain; charset=utf-8';

/** Folders of the documents and the own files of the page, of the clients to copy, and of the library that shows the reference. */
const OWN = new URL('page/', import.meta.url).href;
const CLIENTS = new URL('../../docs/api/clients/', import.meta.url);
const LIBRARY = import.meta.resolve('swagger-ui-dist/package.json');
/** Address in the guide that the browser replaces by its own. */
const SOME_ORIGIN = 'https://hotels.example.com';

/**
 * Returns the public pages by path: the OpenAPI document, the documentation and its files. Both documents are built in
 * docs/api/build by `npm run build:docs`.
 */
export function pagesOf(deployment: Deployment): Map<string, StaticPage> {
  const guide = new StaticPage(
    'text/html; charset=utf-8',
    `${PAGE_HEADERS}\r\nreferrer-policy: no-referrer\r\ncontent-security-policy: ${SECURITY_POLICY}`,
    async () => Buffer.from(fillGuide(await readFile(new URL('docs.html', OWN), 'utf8'), deployment)),
  );
  const openApi = new StaticPage('application/json', PAGE_HEADERS, async () =>
    Buffer.from(fillOpenApi(await readFile(new URL('openapi.json', OWN), 'utf8'), deployment)),
  );
  return new Map([
    ['/openapi.json', openApi],
    ['/docs', guide],
    ['/docs/', guide],
    file('/docs/assets/', OWN, 'page.css', CSS),
    file('/docs/assets/', OWN, 'page.js', JAVASCRIPT),
    file('/docs/assets/', LIBRARY, 'swagger-ui.css', CSS),
    file('/docs/assets/', LIBRARY, 'swagger-ui-bundle.js', JAVASCRIPT),
    ...readdirSync(CLIENTS).map((name) => file('/docs/examples/', CLIENTS.href, name, TEXT)),
  ]);
}

function file(path: string, folder: string, name: string, type: string): [path: string, page: StaticPage] {
  return [path + name, new StaticPage(type, PAGE_HEADERS, () => readFile(new URL(name, folder)))];
}

/** Sets the address of the service and of its operator in the guide. Their configured forms need no escaping. */
export function fillGuide(html: string, { BASE_PATH, PUBLIC_URL, SUPPORT_EMAIL: email }: Deployment): string {
  const values: Record<string, string> = {
    basePath: BASE_PATH,
    address: PUBLIC_URL ? PUBLIC_URL + BASE_PATH : `<span data-address>${SOME_ORIGIN}${BASE_PATH}</span>`,
    support: email ? `<a href="mailto:${email}">${email}</a>` : 'the operator of the service',
  };
  return html.replace(/\{\{(\w+)\}\}/g, (_, name) => values[name]!);
}

function fillOpenApi(json: string, { BASE_PATH, PUBLIC_URL, SUPPORT_EMAIL }: Deployment): string {
  const document = JSON.parse(json);
  document.servers[0].url = PUBLIC_URL + BASE_PATH || '/';
  if (SUPPORT_EMAIL) document.info.contact.email = SUPPORT_EMAIL;
  return JSON.stringify(document);
}
