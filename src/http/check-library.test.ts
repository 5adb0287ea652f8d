import { readdirSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { USED_NAMES } from './check-library.ts';

/** Sources that call the library. admin.ts has responses of Node's own server. */
const sources = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.ts') && !/\.(test|fixture)\.ts$/.test(file))
  .filter((file) => !['admin.ts', 'check-library.ts'].includes(file))
  .map((file) => readFileSync(`${import.meta.dirname}/${file}`, 'utf8'))
  .join('\n');

/** Returns what the sources call of an object that is always named so. */
const calledOf = (name: string) =>
  [...sources.matchAll(new RegExp(`\\b${name}(?:\\?|!)?\\.(\\w+)\\(`, 'g'))].map(([, method]) => method!);
const unique = (names: string[]) => [...new Set(names)].sort();

it('the list of used names has every name that the sources use, and no other', () => {
  expect(unique(calledOf('request'))).toEqual(USED_NAMES.request);
  expect(unique(calledOf('response'))).toEqual(USED_NAMES.response);
  // server.ts registers by the name of the method
  const registered = /^const REGISTER = \{(.*)\} as const;$/m.exec(sources)![1]!.match(/(?<=')\w+/g)!;
  expect(unique([...calledOf('app'), ...registered])).toEqual(USED_NAMES.app);
  // the structure test permits values of the library in library.ts only
  const { module } = USED_NAMES;
  const source = readFileSync(`${import.meta.dirname}/library.ts`, 'utf8');
  for (const name of module) expect(source).toMatch(new RegExp(`\\b${name}\\b`));
  const imported = [...source.matchAll(/^export \{ (.*) \} from 'uWebSockets\.js'/gm)].flatMap(([, names]) =>
    names!.split(', '),
  );
  const read = [...source.matchAll(/\buws\.(\w+)/g)].map(([, name]) => name!);
  expect(unique([...imported, ...read, '_cfg'])).toEqual(module);
});
