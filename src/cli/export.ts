import { randomBytes } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { PassThrough, type Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import type { Sql } from 'postgres';
import { HOTEL_COLUMNS, type HotelRow } from '../hotels/row.ts';
import { Failure } from '../lib/failure.ts';
import type { CliCommand } from './common/help.ts';
import { print } from './common/print.ts';
import { count, Progress } from './common/progress.ts';
import { withDatabase } from './common/session.ts';

/** Hotels read and written at a time; memory does not grow with the table. */
const ROWS = 1_000;

export function addCommand(program: CliCommand): void {
  program
    .command('export')
    .description('write all hotels of one moment as NDJSON, ordered by id, as import reads it')
    .argument('[file]', 'the file to write, gzipped if its name ends in .gz, or - for standard output', '-')
    .json('{"exported","file"}; needs a file')
    .examples(
      'hotel-api export hotels.ndjson.gz',
      'hotel-api export | grep \'"country_code":"PT"\' > portugal.ndjson',
    )
    .action(exportHotels);
}

/** Runs `export [FILE]` (`-`: standard output, without `json`): writes one snapshot of all hotels as NDJSON, ordered by id. */
async function exportHotels(file: string, { json }: { json?: boolean }): Promise<void> {
  const toOutput = file === '-';
  if (toOutput && json)
    throw new Failure('--json needs a file, because standard output carries the hotels.', 2);
  // unique to this run: another may export to the same file
  const partial = `${file}.${randomBytes(6).toString('hex')}.partial`;
  const sink = toOutput ? process.stdout : createWriteStream(partial, { flags: 'wx' });
  try {
    const exported = await withDatabase((sql) =>
      writeHotels(sql, /\.gz$/i.test(file) ? createGzip() : new PassThrough(), sink),
    );
    if (toOutput) return;
    // the file appears under its name when it is complete
    await rename(partial, file);
    print(json, { exported, file });
  } catch (error) {
    if (!toOutput) await rm(partial, { force: true });
    const { code, message, syscall } = error as NodeJS.ErrnoException;
    if (syscall === undefined || !/^(open|write|rename)$/.test(syscall)) throw error;
    throw new Failure(`cannot write ${toOutput ? 'to standard output' : file} (${code}): ${message}`);
  }
}

/** Returns a hotel as a line: the fields of the API except the derived `certified`. */
function lineOf({ registry_id, ...hotel }: HotelRow): string {
  const images = hotel.images.map(({ url, caption }) => ({ url, caption: caption ?? null }));
  return `${JSON.stringify({ ...hotel, images, registry_id: registry_id && Number(registry_id) })}\n`;
}

async function writeHotels(sql: Sql, packer: NodeJS.ReadWriteStream, sink: Writable): Promise<number> {
  return sql.begin('isolation level repeatable read read only', async (transaction) => {
    await transaction`set local statement_timeout = 0`;
    const [total] = await transaction`select count(*)::float8 as count from hotels`;
    const progress = new Progress('exporting', total!.count, count('hotel'));
    let exported = 0;
    async function* lines(): AsyncGenerator<string> {
      const rows = transaction.unsafe<HotelRow[]>(
        `select ${HOTEL_COLUMNS} from hotels order by id collate "C"`,
      );
      for await (const some of rows.cursor(ROWS)) {
        yield some.map(lineOf).join('');
        exported += some.length;
        progress.at(exported);
      }
    }
    try {
      await pipeline(lines, packer, sink, { end: sink !== process.stdout });
    } finally {
      progress.stop();
    }
    return exported;
  });
}
