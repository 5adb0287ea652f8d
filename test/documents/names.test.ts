import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { CliCommand } from '../../src/cli/common/help.ts';
import { VARIABLES } from '../../src/config/config.ts';
import { REJECTIONS } from '../../src/errors.ts';
import { blocksOf, codeOf, documents, proseOf, ROOT, read, unique } from './files.ts';
import { program, TABLES } from './tables.ts';

const everything = documents.map(read).join('\n');
const code = codeOf(everything);
const commands = blocksOf(everything)
  .filter(({ language }) => language === 'sh')
  .map(({ text }) => text);

/** Returns the anchors that GitHub gives to the headings of a document. */
function anchorsOf(path: string): string[] {
  return [...proseOf(read(path)).matchAll(/^#+ (.*)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

describe('README.md', () => {
  it('has at most 220 lines', () => {
    expect(read('README.md').split('\n').length).toBeLessThanOrEqual(220);
  });

  it('links every document, directly or through another', () => {
    const seen = new Set(['README.md']);
    for (const path of seen)
      for (const target of linksOf(path)) {
        const file = target.split('#')[0]!;
        if (file.endsWith('.md')) seen.add(join(dirname(path), file));
      }
    expect(unique([...seen].filter((path) => documents.includes(path)))).toEqual(unique(documents));
  });

  it.each([
    ['src', /^ {2}([a-z-]+)\/ /gm],
    ['test', /`test\/([a-z-]+)`(?=.*\|$)/gm],
  ])('leaves the tree to architecture.md, which has a line for every folder of %s', (folder, line) => {
    const named = [...read('docs/architecture.md').matchAll(line)].map(([, name]) => name!);
    const entries = readdirSync(ROOT + folder, { withFileTypes: true }).filter((entry) =>
      entry.isDirectory(),
    );
    expect(unique(named)).toEqual(unique(entries.map(({ name }) => name)));
  });
});

it('every command has help with an example of that command', () => {
  const described = (command: CliCommand, path: string): [CliCommand, string][] => [
    [command, path],
    ...command.commands.flatMap((each) => described(each as CliCommand, `${path} ${each.name()}`)),
  ];
  const commands = program.commands.flatMap((each) => described(each as CliCommand, each.name()));
  expect(commands.length).toBeGreaterThan(14);
  for (const [command, path] of commands) {
    const help: string[] = [];
    command.configureOutput({ writeOut: (text) => help.push(text) }).outputHelp();
    expect(help.join('').split('Examples:\n')[1], path).toContain(`hotel-api ${path}`);
  }
});

it('comments of src name existing files', () => {
  const files = (readdirSync(`${ROOT}src`, { recursive: true }) as string[]).filter((file) =>
    file.endsWith('.ts'),
  );
  const missing = files.flatMap((file) => {
    const comments = read(`src/${file}`).match(/^\s*(?:\/?\*|\/\/).*|\s\/\/ .*/gm) ?? [];
    const named = comments.flatMap((line) => line.match(/[\w./-]*\w\.(?:ts|sql)\b/g) ?? []);
    const folders = [ROOT, `${ROOT}src/`, `${ROOT}src/${dirname(file)}/`];
    return named.filter((path) => !folders.some((folder) => existsSync(folder + path)));
  });
  // patterns of names
  expect(unique(missing)).toEqual(['009-more.from-008.sql', 'NNN-name.sql']);
});

function linksOf(path: string): string[] {
  return [...proseOf(read(path)).matchAll(/\]\(([^)\s]+)\)/g)].map(([, target]) => target!);
}

describe('the documents name existing', () => {
  it.each(documents)('links of %s', (path) => {
    const missing = linksOf(path).filter((target) => {
      if (/^https?:/.test(target)) return false;
      const [file, anchor] = target.split('#') as [string, string | undefined];
      const linked = file === '' ? path : join(dirname(path), file);
      return !existsSync(ROOT + linked) || (anchor !== undefined && !anchorsOf(linked).includes(anchor));
    });
    expect(missing).toEqual([]);
  });

  it('paths', () => {
    const named = [...code, ...commands].flatMap(
      (text) => text.match(/(?<![\w/.-])(src|test|bench|sql|k8s|docs|\.ci)\/[\w./-]*[\w/]/g) ?? [],
    );
    expect(named.length).toBeGreaterThan(20);
    expect(unique(named.filter((path) => !existsSync(ROOT + path)))).toEqual([]);
  });

  it('scripts of npm, and name all of them', () => {
    const { scripts } = JSON.parse(read('package.json'));
    const named = [...code, ...commands].flatMap((text) =>
      [...text.matchAll(/npm run (?:-s )?([\w:-]+)/g)].map(([, name]) => name!),
    );
    // these two need no `run`
    expect(unique([...named, 'start', 'test'])).toEqual(Object.keys(scripts).sort());
  });

  it('commands and options of the command line', () => {
    const lines = commands.flatMap((text) => [
      ...text.matchAll(/hotel-api (?:-- )?([a-z][a-z-]*)(?: ([a-z]+))?([^#\n]*)/g),
    ]);
    expect(lines.length).toBeGreaterThan(4);
    for (const [line, first, second, rest] of lines) {
      const command = program.commands.find((each) => each.name() === first);
      expect(command, line).toBeDefined();
      const { options } = command!.commands.find((each) => each.name() === second) ?? command!;
      const wanted = rest!.match(/(?<=\s)--(?!help)[a-z-]+/g) ?? [];
      const known = options.map(({ long }) => long);
      expect(known, line).toEqual(expect.arrayContaining(wanted));
    }
  });

  it('layers of src, in the order of their test', () => {
    const layersOf = (text: string) => codeOf(text).filter((name) => !name.includes('/'));
    const documented = /## Layers\n([\s\S]*?)\nOnly /.exec(read('docs/architecture.md'))![1]!;
    const tested = /const LAYERS = \[([^;]*)\];/.exec(read('src/structure.test.ts'))![1]!;
    expect(layersOf(documented)).toEqual([...tested.matchAll(/'([^']+)'/g)].map(([, name]) => name));
  });

  it('variables', () => {
    const families = /^(DATABASE|REDIS|ACCESS_LOG|DRAIN|L1|ADMIN)_[A-Z_]+$/;
    const named = unique(code.filter((text) => families.test(text)));
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter((name) => !(name in VARIABLES))).toEqual([]);
  });

  it('metrics and alerts', async () => {
    const known = [...codeOf(await TABLES.metrics!()), ...codeOf(await TABLES.alerts!())];
    const sql = readdirSync(`${ROOT}sql`).map((file) => read(`sql/${file}`));
    const named = unique(code.flatMap((text) => text.match(/^(?:hotel_api_\w+|HotelApi\w+)(?=$|\{)/) ?? []));
    expect(named.length).toBeGreaterThan(40);
    // roles, tables and sequences of the schema have the same prefix
    expect(named.filter((name) => !known.includes(name) && !sql.some((text) => text.includes(name)))).toEqual(
      [],
    );
  });

  it('reasons of rejections, and name all of them', () => {
    const table = /^Reasons of .*\n\n([\s\S]*?)\n\n/m.exec(
      read('docs/operations/metrics-and-alerts.md'),
    )![1]!;
    const named = [...table.matchAll(/^\| `(\w+)`/gm)].map(([, reason]) => reason!);
    expect(unique(named)).toEqual(unique(REJECTIONS));
  });

  it('log messages', () => {
    const logged = read('src/observability/events.ts') + read('src/observability/access-log.ts');
    const quoted = [...proseOf(everything).matchAll(/\blog (?:message|line)s? ["`]([^"`]+)["`]/g)].map(
      ([, message]) => message!,
    );
    expect(quoted.length).toBeGreaterThan(2);
    expect(unique(quoted.filter((message) => !logged.includes(`'${message}'`)))).toEqual([]);
  });
});

it('the source has what the benchmark of a service without metrics removes', () => {
  const files = ['http/request-pipeline', 'http/received-request', 'cache/local-cache', 'auth/api-key-cache'];
  const script = files.map((file) => `import '${ROOT}src/${file}.ts';`).join('');
  const hooks = ['--import', `${ROOT}bench/targets/bare-service.mjs`];
  const { status, stderr } = spawnSync(process.execPath, [...hooks, '--input-type=module', '-e', script]);
  expect([status, `${stderr}`]).toEqual([0, '']);
});
