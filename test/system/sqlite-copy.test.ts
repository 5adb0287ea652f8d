import { beforeAll, describe, expect, it } from 'vitest';
import { ClientPrograms } from '../support/client-programs.ts';
import { type FrontFault, startFront } from '../support/front.ts';
import { untilApplied } from '../support/log-state.ts';
import { needs } from '../support/needs.ts';
import { type Service, startService } from '../support/service.ts';

const HOTELS = 2_400;
/** Hotels between two others, so that their changes are on different pages. */
const BETWEEN = `update hotels set room_count = coalesce(room_count, 0) + 1 where id between 'h0500' and 'h1999'`;

/** Error of an update that received 400. */
const FAILED = expect.stringMatching('400') as unknown as string;

await needs('python3');

interface Row {
  id: string;
  channel_id: string | null;
  registry_id: number | null;
  hotel: unknown;
}

/** What the update of a copy left. */
interface Updated {
  error: string | null;
  rows: Row[];
  requests: number;
}

/** Commands that update a copy in the folder. */
const UPDATES = [
  [process.execPath, '--no-warnings', 'update-copy.ts', 'of-typescript.db'],
  ['python3', 'update_copy.py', 'of-python.db'],
] as const;

describe('the copies in SQLite, in TypeScript and in Python', () => {
  let service: Service;
  let programs: ClientPrograms;

  beforeAll(async () => {
    const hotels = Array.from({ length: HOTELS }, (_, i) => ({
      id: `h${String(i).padStart(4, '0')}`,
      channel_id: `C${i}`,
      registry_id: 500_000 + i,
      description: '"é😀\n',
    }));
    service = await startService({ hotels });
    programs = await ClientPrograms.of(service);
  });

  /** Updates each copy through a gateway that responds to some requests itself, and expects the same of both. */
  async function expectUpdates(expected: Partial<Updated>, faults: Record<number, FrontFault> = {}) {
    const updates = UPDATES.map(async ([program, ...options]): Promise<Updated> => {
      const { url, seen } = await startFront(service.port, faults);
      const { error, rows } = JSON.parse(await programs.run(program, options, url));
      for (const row of rows) row.hotel = JSON.parse(row.hotel);
      return { error, rows, requests: seen.length };
    });
    for (const updated of await Promise.all(updates)) expect(updated).toMatchObject(expected);
  }

  /** Returns the rows of a copy of what the list shows. */
  async function listed(): Promise<Row[]> {
    const rows: Row[] = [];
    for (let offset = 0; ; offset += 100) {
      const hotels: Row[] = (await service.get(`/hotels?limit=100&offset=${offset}`)).json();
      for (const hotel of hotels)
        rows.push({ id: hotel.id, channel_id: hotel.channel_id, registry_id: hotel.registry_id, hotel });
      if (hotels.length < 100) return rows;
    }
  }

  /** Commits the statements as one transaction; returns when the service serves them. */
  async function commit(...statements: string[]): Promise<void> {
    await service.sql.begin(async (sql) => {
      for (const statement of statements) await sql.unsafe(statement);
    });
    await untilApplied(service);
  }

  it('begins, while an id goes from a hotel of the first page to one of the last', async () => {
    await expectUpdates({ error: FAILED, rows: [] }, { 2: { status: 400 } });
    await commit(
      `update hotels set channel_id = null, registry_id = null where id = 'h0007'`,
      `update hotels set channel_id = 'C7', registry_id = 500007 where id = 'h2300'`,
    );
    await expectUpdates({ error: null, rows: await listed() });
  });

  it('follows ids that change hands within a page, and hotels with new ids', async () => {
    await commit(
      // swapped
      `update hotels set channel_id = 'none', registry_id = 1 where id = 'h0010'`,
      `update hotels set channel_id = 'C10', registry_id = 500010 where id = 'h0011'`,
      `update hotels set channel_id = 'C11', registry_id = 500011 where id = 'h0010'`,
      // moved, the hotel without the id first
      `update hotels set name = 'First' where id = 'h0013'`,
      `update hotels set channel_id = null where id = 'h0012'`,
      `update hotels set channel_id = 'C12' where id = 'h0013'`,
      // renamed, and its name given to another
      `update hotels set id = 'renamed' where id = 'h0014'`,
      `update hotels set id = 'h0014' where id = 'h0015'`,
      // deleted, and its ids given to a new one
      `delete from hotels where id = 'h0016'`,
      `insert into hotels (id, name, channel_id, registry_id) values ('a new one', 'New', 'C16', 500016)`,
    );
    await expectUpdates({ error: null, rows: await listed(), requests: 1 });
  });

  it('follows ids that change hands across pages, and is the old copy until the last page', async () => {
    const before = await listed();
    await commit(
      `update hotels set channel_id = 'none', registry_id = 1 where id = 'h0020'`,
      BETWEEN,
      `update hotels set channel_id = 'C20', registry_id = 500020 where id = 'h0021'`,
      `update hotels set channel_id = 'C21', registry_id = 500021 where id = 'h0020'`,
    );
    await expectUpdates({ error: FAILED, rows: before }, { 2: { status: 400 } });
    await expectUpdates({ error: null, rows: await listed(), requests: 1 });
  });

  it('is the old copy while hotels are copied anew after 410', async () => {
    const before = await listed();
    await commit(
      `select hotel_api_invalidate()`,
      `delete from hotels where id = 'h0030'`,
      `update hotels set channel_id = 'C30' where id = 'h0031'`,
    );
    // the first response is 410, the third the second page
    await expectUpdates({ error: FAILED, rows: before }, { 3: { status: 400 } });
    await expectUpdates({ error: null, rows: await listed(), requests: 2 });
  });
});
