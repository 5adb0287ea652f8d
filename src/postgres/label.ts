import type { Lane, Postgres } from './client.ts';

/** Rows and the position of the log at which they were read. */
export interface Labelled<Row> {
  label: number;
  rows: Row[];
}

/** History and position up to which the log was applied. */
export interface Applied {
  history: string;
  position: number;
}

/** Row with the newest row of the log. `found` is null in the only row if the query returns none. */
type MarkedRow<Row> = { label: number; history: string; found: true | null } & Row;

/**
 * A label is honest. The sequencer gives a change its position after the change has committed, in one later transaction. A
 * snapshot that shows a position therefore shows every change with a position up to it. A statement has one snapshot: rows
 * that are read together with the newest position contain all of these changes, on the primary and on a replica alike.
 * The label may be too low, if later changes have no position yet; it is never too high.
 *
 * Returns the rows of a query with their label, or undefined if the server is behind what was applied before the read
 * began, or has another history than before or after it. While nothing is known to be applied, any label will do. The
 * columns of the query must not be named `label`, `history` or `found`. Throws what `Postgres` throws.
 */
export async function readLabelled<Row>(
  postgres: Postgres,
  applied: () => Applied | undefined,
  text: string,
  parameters: unknown[],
  owner?: string,
  lane?: Lane,
): Promise<Labelled<Row> | undefined> {
  // its object may change during the read
  const { history, position } = applied() ?? { history: undefined, position: 0 };
  const rows = await postgres.rows<MarkedRow<Row>>(withLabel(text), parameters, owner, lane);
  const [mark] = rows;
  // a log without rows is not the one that was applied
  if (!mark || mark.label < position) return undefined;
  for (const known of [history, applied()?.history])
    if (known !== undefined && known !== mark.history) return undefined;
  return { label: mark.label, rows: mark.found ? rows : [] };
}

function withLabel(text: string): string {
  return `select mark.label, mark.history, read.* from (
      select position::float8 as label, (state).history as history from hotel_api_log order by position desc limit 1
    ) as mark left join lateral (select true as found, query.* from (${text}) as query) as read on true`;
}
