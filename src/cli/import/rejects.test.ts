import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';

test('a process that ends while it writes rejected lines leaves none of them', () => {
  const folder = mkdtempSync(join(tmpdir(), 'hotel-api-rejects-'));
  const script = `
    import { readdirSync } from 'node:fs';
    import { writeRejected } from '${new URL('./rejects.ts', import.meta.url)}';
    const transaction = async () => [{ start: 0, end: 9 }];
    async function* read() {
      yield Buffer.from('line');
      console.log(readdirSync('.').length);
      process.exit();
    }
    await writeRejected(transaction, { read }, 'hotels.rejected.ndjson', '');`;
  const options = ['--input-type=module', '--eval', script];
  expect(execFileSync(process.execPath, options, { cwd: folder, encoding: 'utf8' })).toBe('1\n');
  expect(readdirSync(folder)).toEqual([]);
  rmSync(folder, { recursive: true });
});
