import { describe, expect, it } from 'vitest';
import { renderGuide } from '../../docs/api/build/guide.ts';
import { guideAsMarkdown } from '../../docs/api/build/markdown.ts';
import { INTERFACE_VERSION, openApiDocument } from '../../docs/api/build/openapi.ts';
import { SPECIFIED_FIELDS } from '../../src/hotels/entry.fixture.ts';
import { Hotel } from '../../src/hotels/hotel.ts';
import { ROOT, read } from './files.ts';

const VERSIONS = /^## Versions\n([\s\S]*?)^## /m;

const guide = guideAsMarkdown();
const document = openApiDocument();

describe('the documents of the API are what docs/api/build makes; npm run build:docs builds', () => {
  it.each([
    ['docs/api/guide.md', guide],
    ['src/api-docs/page/docs.html', renderGuide()],
    ['src/api-docs/page/openapi.json', `${JSON.stringify(document, undefined, 2)}\n`],
  ])('%s', (path, text) => expect(text).toMatchFileSnapshot(ROOT + path));

  it('whose list of versions, the changelog and the client to copy have every field', () => {
    const fields = Object.keys(Hotel.properties);
    const added = fields.filter((field) => !SPECIFIED_FIELDS.includes(field));
    const missing = (text: string) => added.filter((field) => !text.includes(`\`${field}\``));
    const [versions] = VERSIONS.exec(guide)!;
    expect.soft(missing(versions), 'to be named in docs/api/build/guide.html under Versions').toEqual([]);
    expect.soft(missing(read('docs/changelog.md')), 'to be named in docs/changelog.md').toEqual([]);
    const [client] = /interface Hotel \{[\s\S]*?\n\}/.exec(read('docs/api/clients/client.ts'))!;
    const declared = [...client.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
    expect.soft(declared, 'Hotel of docs/api/clients/client.ts').toEqual(fields);
  });

  it('whose list of versions names the version and every operation', () => {
    const versions = VERSIONS.exec(guide)![1]!;
    expect(versions).toContain(`version ${INTERFACE_VERSION} `);
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(operations.filter((operation) => !versions.includes(`\`${operation}\``))).toEqual([]);
  });
});
