import { existsSync, readdirSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ROOT, read } from './files.ts';

// the parser imports JSON as bundlers do, without the attribute that Node requires
const hooks = registerHooks({
  load: (url, context, next) =>
    next(url, url.endsWith('.json') ? { ...context, importAttributes: { type: 'json' } } : context),
});
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } = await import(
  '@actions/workflow-parser'
);
hooks.deregister();

const FOLDER = '.github/workflows/';
const workflows = readdirSync(ROOT + FOLDER);

/** Returns the errors of GitHub's own parser for a workflow. */
async function faultsOf(name: string, content: string): Promise<string[]> {
  const { context, value } = parseWorkflow({ name, content }, new NoOperationTraceWriter());
  if (value) await convertWorkflowTemplate(context, value);
  return context.errors.getErrors().map(({ message }) => message);
}

describe.each(workflows)('the workflow %s', (name) => {
  const text = read(FOLDER + name);

  it('is accepted by GitHub’s own parser', async () => {
    expect(await faultsOf(name, text)).toEqual([]);
    expect(await faultsOf(name, text.replace('runs-on', 'run-on'))).not.toEqual([]);
  });

  it('pins actions by commit, with the release as a comment', () => {
    const used = [...text.matchAll(/^\s*(?:- )?uses: (.*)$/gm)].map(([, action]) => action!);
    expect(used.length).toBeGreaterThan(0);
    for (const action of used)
      expect(action).toMatch(
        /^\.\/\.github\/workflows\/[\w-]+\.yml$|^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/,
      );
  });

  it('pins by digest the images that build, emulate and scan', () => {
    const images = [...text.matchAll(/^\s*(?:BUILDER|SCANNER|image): (?!node:)(.*)$/gm)].map(
      ([, image]) => image!,
    );
    for (const image of images) expect(image).toMatch(/^[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}$/);
    expect(images).toHaveLength(name === 'release.yml' ? 3 : 0);
    for (const [created] of text.matchAll(/buildx create.*/g)) expect(created).toContain('"image=$BUILDER"');
    expect(text).not.toMatch(/--sbom\b/);
  });

  it('declares read-only permissions, except for jobs that need more', () => {
    expect(parse(text).permissions).toEqual({ contents: 'read' });
  });

  it('runs existing scripts', () => {
    const named = [...text.matchAll(/^\s*(?:- )?(?:run|uses): (\.\S+)/gm)].map(([, path]) => path!);
    for (const path of named) expect(existsSync(ROOT + path), path).toBe(true);
  });
});
