import { readFileSync } from 'node:fs';
import { MAX_CHANGES } from '../changes/change-log.ts';
import { MAX_IMAGES } from '../hotels/hotel.ts';
import { DEFAULT_CHANGES, MAX_LIMIT, MAX_WAIT_S } from '../http/query.ts';
import { MAX_KEYS } from '../wasm/constants.ts';
import { ASSETS, readExample } from './assets.ts';
import { exampleHotel } from './example-hotel.ts';
import { type Deployment, INTERFACE_VERSION } from './openapi.ts';
import { KEY, type Operation, operationsOf } from './operations.ts';

/** Placeholder for the address, which the reader's browser replaces. */
const SOME_ORIGIN = 'https://hotels.example.com';

/** Renders the guide and the reference as HTML. */
export function renderGuide({
  BASE_PATH: basePath,
  PUBLIC_URL: publicUrl,
  SUPPORT_EMAIL: email,
}: Deployment): string {
  const hotel = exampleHotel(new Date().getUTCFullYear());
  const address = (publicUrl || SOME_ORIGIN) + basePath;
  const values: Record<string, string | number> = {
    assets: basePath + ASSETS,
    basePath,
    version: INTERFACE_VERSION,
    base: publicUrl ? address : `<span data-address>${address}</span>`,
    support: email
      ? `<a href="mailto:${escapeHtml(email)}">${escapeHtml(email)}</a>`
      : 'the operator of the service',
    operations: operationsOf(hotel).map(operationItem).join(''),
    keyBody: body(KEY),
    hotelBody: body({ ...hotel, images: hotel.images.slice(0, 1) }),
    maxIds: MAX_KEYS,
    maxLimit: MAX_LIMIT,
    maxImages: MAX_IMAGES,
    maxChanges: MAX_CHANGES,
    defaultChanges: DEFAULT_CHANGES,
    maxWait: MAX_WAIT_S,
  };
  return readFileSync(new URL('page/guide.html', import.meta.url), 'utf8')
    .replace(/\{\{example (\S+) ?(.*?)\}\}/g, (_, file, section) => example(file, section, basePath))
    .replace(/\{\{code (\w+)\}\}([\s\S]*?)\{\{\/code\}\}/g, (_, title, code) =>
      figure(title, escapeHtml(code)),
    )
    .replace(/\{\{(\w+)\}\}/g, (_, name) => {
      if (!(name in values)) throw new Error(`no value for {{${name}}} of the guide`);
      return String(values[name]);
    });
}

function operationItem({ path, body, summary, isScoped }: Operation): string {
  const [method, style] = body ? ['POST', 'post'] : ['GET', 'get'];
  const scope = isScoped ? '<i>scope</i>' : '';
  return `<li><b class="${style}">${method}</b><code>${path}</code><span>${summary}${scope}</span></li>`;
}

/** Renders JSON with a line for each field. */
function body(value: object): string {
  const lines = Object.entries(value).map(([name, field]) => `  "${name}": ${JSON.stringify(field)}`);
  return escapeHtml(`{\n${lines.join(',\n')}\n}`);
}

function example(file: string, section: string, basePath: string): string {
  const shown = section === '' ? readExample(file) : sectionOf(file, section);
  return figure(`<a href="${basePath}/docs/examples/${file}">${file}</a>`, escapeHtml(shown.trim()));
}

/** Returns the part of an example between a line `## name` and the next such line. */
export function sectionOf(file: string, name: string): string {
  const section = readExample(file)
    .split(/^## /m)
    .find((part) => part.startsWith(`${name}\n`));
  if (!section) throw new Error(`${file} has no section ${name}`);
  return section.slice(name.length);
}

function figure(title: string, code: string): string {
  return `<figure class="code"><figcaption>${title}</figcaption><pre tabindex="0"><code>${code}</code></pre></figure>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}
