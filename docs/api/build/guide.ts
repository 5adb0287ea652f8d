import { readFileSync } from 'node:fs';
import { MAX_CHANGES } from '../../../src/changes/log-queries.ts';
import { EXAMPLE_HOTEL, MAX_IMAGES } from '../../../src/hotels/hotel.ts';
import { DEFAULT_CHANGES, MAX_LIMIT, MAX_WAIT_S } from '../../../src/http/query.ts';
import { MAX_KEYS } from '../../../src/wasm/constants.ts';
import { INTERFACE_VERSION } from './openapi.ts';
import { KEY, type Operation, operations } from './operations.ts';

const EXAMPLES = new URL('../clients/', import.meta.url);
const hotel = EXAMPLE_HOTEL;
const VALUES: Record<string, string | number> = {
  version: INTERFACE_VERSION,
  operations: operations.map(operationItem).join(''),
  keyBody: body(KEY),
  hotelBody: body({ ...hotel, images: hotel.images.slice(0, 1) }),
  maxIds: MAX_KEYS,
  maxLimit: MAX_LIMIT,
  maxImages: MAX_IMAGES,
  maxChanges: MAX_CHANGES,
  defaultChanges: DEFAULT_CHANGES,
  maxWait: MAX_WAIT_S,
};
/** Placeholders that the service replaces: see `fillGuide` in src/api-docs/pages.ts. */
const OF_DEPLOYMENT = ['basePath', 'address', 'support'];

/** Returns the guide and the frame of the reference as HTML. */
export function renderGuide(): string {
  return readFileSync(new URL('guide.html', import.meta.url), 'utf8')
    .replace(/\{\{example (\S+) ?(.*?)\}\}/g, (_, file, section) => example(file, section))
    .replace(/\{\{code (\w+)\}\}([\s\S]*?)\{\{\/code\}\}/g, (_, title, code) =>
      figure(title, escapeHtml(code)),
    )
    .replace(/\{\{(\w+)\}\}/g, (placeholder, name) => {
      if (OF_DEPLOYMENT.includes(name)) return placeholder;
      if (!(name in VALUES)) throw new Error(`no value for ${placeholder} of the guide`);
      return String(VALUES[name]);
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

function example(file: string, section: string): string {
  const shown = section === '' ? readExample(file) : sectionOf(file, section);
  return figure(`<a href="{{basePath}}/docs/examples/${file}">${file}</a>`, escapeHtml(shown.trim()));
}

export function readExample(name: string): string {
  return readFileSync(new URL(name, EXAMPLES), 'utf8');
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
