import type { Sql } from 'postgres';
import { parseWhole } from '../common/arguments.ts';
import type { CliCommand } from '../common/help.ts';
import { print } from '../common/print.ts';
import { withDatabase } from '../common/session.ts';
import { unknownKey } from './unknown-key.ts';

/** Days for which the use of keys is kept. */
const MAX_DAYS = 90;

interface Options {
  days: number;
  json?: boolean;
}

export function addUsageCommand(keys: CliCommand): void {
  keys
    .command('usage')
    .description('requests, hotels and bytes served, by day (UTC) and key, the last day first')
    .argument('[id]', 'the id that create and list print (default: all keys)')
    .option('--days <n>', `the last days, today included, at most ${MAX_DAYS}`, parseWhole(1, MAX_DAYS), 30)
    .json('an array of {"day","id","name","requests","hotels","bytes"}')
    .addHelpText(
      'after',
      `
Instances write what they have served once a minute. Responses 429 and 5xx do not count. Bytes are those of bodies as
sent.`,
    )
    .examples('hotel-api keys usage', 'hotel-api keys usage key_Ab3dEf6hIj9k --days 7 --json')
    .action(usage);
}

async function usage(id: string | undefined, { days, json }: Options): Promise<void> {
  print(json, await withDatabase((sql) => read(sql, id, days)));
}

async function read(sql: Sql, id: string | undefined, days: number): Promise<object[]> {
  const rows = await sql`
    select day::text, key_id as id, name, requests::float8, hotels::float8, bytes::float8
    from hotel_api_usage left join api_keys on api_keys.id = key_id
    where day > (now() at time zone 'UTC')::date - ${days}::integer and (${id ?? null}::text is null or key_id = ${id ?? null})
    order by day desc, key_id collate "C"`;
  if (id !== undefined && rows.length === 0) {
    const known = await sql`select from api_keys where id = ${id}`;
    if (known.length === 0) unknownKey(id);
  }
  return rows;
}
