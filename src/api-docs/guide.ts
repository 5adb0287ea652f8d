import { readFileSync } from 'node:fs';
import { MAX_CHANGES } from '../changes/change-log.ts';
import { publicErrors } from '../errors.ts';
import { type FieldSchema, Hotel, MAX_IMAGES } from '../hotels/hotel.ts';
import { DEFAULT_CHANGES, MAX_LIMIT, MAX_WAIT_S } from '../http/query.ts';
import { MAX_KEYS } from '../wasm/constants.ts';
import { ASSETS, readExample } from './assets.ts';
import { exampleHotel } from './example-hotel.ts';
import { type Deployment, INTERFACE_VERSION } from './openapi.ts';
import { KEY } from './operations.ts';
import { MEANINGS } from './responses.ts';
import { plain } from './schemas.ts';

/** Placeholder for the address, which the reader's browser replaces. */
const SOME_ORIGIN = 'https://hotels.example.com';

/** Formats of fields that their names do not explain. */
const FORMATS: Record<string, string> = { uri: 'http or https URI', date: 'YYYY-MM-DD' };

/** Schema of a field as the document has it, where null is one of its types. */
type DescribedField = Omit<FieldSchema, 'type'> & {
  type: string | string[];
  pattern?: string;
  description: string;
};

/** Renders the guide and the reference as HTML. */
export function renderGuide({ basePath, publicUrl, supportEmail }: Deployment): string {
  const hotel = exampleHotel(new Date().getUTCFullYear());
  const address = (publicUrl || SOME_ORIGIN) + basePath;
  const values: Record<string, string | number> = {
    assets: basePath + ASSETS,
    basePath,
    version: INTERFACE_VERSION,
    base: publicUrl ? address : `<span data-address>${address}</span>`,
    support: supportEmail
      ? `<a href="mailto:${escapeHtml(supportEmail)}">${escapeHtml(supportEmail)}</a>`
      : 'the operator of the service',
    fields: fieldTable(),
    errors: errorTable(),
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

/** Renders the fields of a hotel with the bounds of their schemas. */
function fieldTable(): string {
  const rows = Object.entries(plain(Hotel).properties as Record<string, DescribedField>).map(
    ([name, field]) => {
      const {
        type,
        format,
        pattern,
        minLength = 0,
        maxLength,
        minimum,
        maximum,
        multipleOf,
        description,
      } = field;
      const bounds = [
        (format && (FORMATS[format] ?? format)) ?? pattern,
        maxLength !== undefined && `${minLength > 0 ? `${minLength} to` : 'at most'} ${maxLength} characters`,
        maxLength === undefined && minLength > 0 && 'not empty',
        minimum !== undefined && `${minimum} to ${maximum}`,
        multipleOf !== undefined && `in steps of ${multipleOf}`,
      ].filter(Boolean);
      const cells = [
        `<code>${name}</code>`,
        [type].flat().join(' or '),
        bounds.join(', '),
        inCode(description),
      ];
      return `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
    },
  );
  const head = '<th>Field</th><th>Type</th><th>Format and bounds</th><th>Meaning</th>';
  return `<table class="stacked"><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}

/** Converts text to HTML; parts between backticks become code. */
function inCode(text: string): string {
  return escapeHtml(text).replace(/`([^`]+)`/g, '<code>$1</code>');
}

function errorTable(): string {
  const byStatus = Map.groupBy(Object.values(publicErrors), ({ status }) => status);
  const rows = [...byStatus].map(([status, errors]) => {
    const codes = errors.map(({ code, message }) => `<dt>${code}</dt><dd>${escapeHtml(message)}</dd>`);
    return `<tr><td>${status}</td><td><dl>${codes.join('')}</dl></td><td>${inCode(MEANINGS[status]!)}</td></tr>`;
  });
  const head = '<th>Status</th><th><code>x-error-code</code> and message</th><th>Meaning</th>';
  return `<table class="errors stacked"><thead><tr>${head}</tr></thead><tbody>${rows.join('')}</tbody></table>`;
}
