import { describe, expect, it } from 'vitest';
import { renderGuide } from '../../docs/api/build/guide.ts';
import { guideAsMarkdown } from '../../docs/api/build/markdown.ts';
import { INTERFACE_VERSION, openApiDocument } from '../../docs/api/build/openapi.ts';
import { ROOT } from './files.ts';

const guide = guideAsMarkdown();
const document = openApiDocument();

describe('the documents of the API are what docs/api/build makes; npm run build:docs builds', () => {
  it.each([
    ['docs/api/guide.md', guide],
    ['src/api-docs/page/docs.html', renderGuide()],
    ['src/api-docs/page/openapi.json', `${JSON.stringify(document, undefined, 2)}\n`],
  ])('%s', (path, text) => expect(text).toMatchFileSnapshot(ROOT + path));

  it('whose list of versions names the version and every operation', () => {
    const versions = /^## Versions\n([\s\S]*?)^## /m.exec(guide)![1]!;
    expect(versions).toContain(`version ${INTERFACE_VERSION} `);
    const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(operations.filter((operation) => !versions.includes(`\`${operation}\``))).toEqual([]);
  });
});
