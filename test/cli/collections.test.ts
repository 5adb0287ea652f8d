import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { insertHotels } from '../support/rows.ts';
import { Program, put } from './program.ts';

const program = await Program.set();
const { sql } = program.database;
await insertHotels(sql, [{ id: 'a' }, { id: 'b' }, { id: 'c' }, { id: '{odd' }]);

beforeEach(async () => {
  await sql`delete from collections`;
  expect(await program.jsonHere(['collections', 'create', 'acme', '--name', 'Acme'])).toEqual({
    code: 0,
    id: 'acme',
    name: 'Acme',
  });
});

const change = (action: string) => async (lines: string) =>
  program.jsonHere(['collections', action, 'acme', await put(program, 'ids', lines)]);
const [add, remove] = [change('add'), change('remove')];
const members = async () => {
  const rows = await sql`select hotel_id from collection_hotels order by hotel_id collate "C"`;
  return rows.map(({ hotel_id }) => hotel_id);
};
const none = { id: 'acme', unchanged: 0, unknown: 0, rejected: 0, code: 0 };

describe('collections', () => {
  test('are filled from lines of ids, of a file or of standard input, and emptied', async () => {
    expect(await add('a\r\n\n  b\na\n')).toEqual({ ...none, added: 2 });
    const more = await program.json(['collections', 'add', 'acme', '-'], 'b\nc');
    expect(more).toEqual({ ...none, added: 1, unchanged: 1 });
    expect(await members()).toEqual(['a', 'b', 'c']);
    expect(await remove('c\nb\n')).toEqual({ ...none, removed: 2 });
    expect(await remove('c\n')).toEqual({ ...none, removed: 0, unchanged: 1 });
    expect(await members()).toEqual(['a']);
  });

  test('keep and report ids without a hotel, which do not fail the command', async () => {
    const path = await put(program, 'ids', 'later\na\nlater\n');
    const { code, stdout, stderr } = await program.here(['collections', 'add', 'acme', path]);
    expect(code).toBe(0);
    expect(stdout).toMatch(/^added +2\nunchanged +0\nunknown +1\nrejected +0$/m);
    expect(stderr).toContain('no hotel has the id "later"');
    expect(await members()).toEqual(['a', 'later']);
    expect(await program.jsonHere(['collections', 'show', 'acme'])).toMatchObject({ hotels: 1, unknown: 1 });
  });

  test('reject lines without an id, and accept the others', async () => {
    const lines = `{"id":"a"}\n{"id":5}\n{"name":"x"}\n{broken\n{"id":"${'x'.repeat(256)}"}\n{"id":"b"}\n{"id":"{odd"}\n`;
    expect(await add(lines)).toEqual({ ...none, code: 1, added: 3, rejected: 4 });
    const { stderr } = await program.here(['collections', 'add', 'acme', join(program.folder, 'ids')]);
    expect(stderr).toMatch(
      /^line 2: .*\nline 3: .*\nline 4: .*\nline 5: an id must have 1 to 255 characters\n$/,
    );
  });

  test('are listed, shown and deleted, with their keys', async () => {
    await add('a\nb\n');
    const key = await program.jsonHere(['keys', 'create', '--name', 'of acme', '--collection', 'acme']);
    expect(key).toMatchObject({ code: 0, collection: 'acme' });
    const next = await program.jsonHere(['keys', 'rotate', key.id, '--grace', '1h']);
    expect(next).toMatchObject({ code: 0, collection: 'acme' });
    const { stdout } = await program.here(['keys', 'list', '--json']);
    expect(JSON.parse(stdout)).toMatchObject([{ collection: 'acme' }, { collection: 'acme' }]);
    const all = await program.jsonHere(['keys', 'create', '--name', 'of none']);
    expect(all).not.toHaveProperty('collection');
    expect((await program.here(['keys', 'list'])).stdout).toMatch(
      / acme .*\n.* acme .*\n.* of none +- +- +- /,
    );
    const acme = { id: 'acme', name: 'Acme', hotels: 2, unknown: 0, keys: 2 };
    expect(JSON.parse((await program.here(['collections', 'list', '--json'])).stdout)).toEqual([acme]);
    expect(await program.jsonHere(['collections', 'delete', 'acme'])).toEqual({ code: 0, ...acme });
    expect(await members()).toEqual([]);
    // the keys do not become unrestricted
    const [row] = await sql`select count(*)::int from api_keys where collection_id = 'acme'`;
    expect(row!.count).toBe(2);
  });

  test.each([
    [['collections', 'show', 'none'], /no collection with the id "none"/],
    [['collections', 'add', 'none', import.meta.filename], /no collection with the id "none"/],
    [['keys', 'create', '--name', 'n', '--collection', 'none'], /no collection with the id "none"/],
    [['collections', 'create', 'acme', '--name', 'again'], /A collection with the id "acme" exists already/],
    [['collections', 'add', 'acme', 'no-such-file'], /cannot read no-such-file/],
  ])('%j fails with a message', async (args, sentence) => {
    await expect(program.here(args)).rejects.toThrow(sentence);
  });
});
