import { openDatabase } from '../postgres/connect.ts';

/** Runs one SQL statement on the demo's database and prints its rows or its command tag. */
const sql = openDatabase(process.env.DATABASE_URL!, 1, { kind: 'operate' });
try {
  const result = await sql.unsafe(process.argv.slice(2).join(' '));
  for (const row of result) console.log(JSON.stringify(row));
  if (result.length === 0) console.log(result.command, result.count);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = 1;
} finally {
  await sql.end();
}
