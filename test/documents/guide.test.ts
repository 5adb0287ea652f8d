import { beforeEach, describe, expect, it, vi } from 'vitest';
import { INTERFACE_VERSION } from '../../src/api-docs/openapi.ts';
import { ROOT } from './files.ts';
import { guideFile, openApiFile } from './guide.ts';

/** The examples of the document are of this year. */
beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 5) }));

describe('the documents of the API in docs/api are those of the service; npm run build:docs updates', () => {
  it('guide.md', async () => {
    await expect(guideFile()).toMatchFileSnapshot(`${ROOT}docs/api/guide.md`);
  });

  it('openapi.json', async () => {
    await expect(openApiFile()).toMatchFileSnapshot(`${ROOT}docs/api/openapi.json`);
  });

  it('whose list of versions names the version and every operation', () => {
    const versions = /^## Versions\n([\s\S]*?)^## /m.exec(guideFile())![1]!;
    expect(versions).toContain(`version ${INTERFACE_VERSION} `);
    const { paths } = JSON.parse(openApiFile()) as { paths: Record<string, object> };
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
    );
    expect(operations.filter((operation) => !versions.includes(`\`${operation}\``))).toEqual([]);
  });
});
