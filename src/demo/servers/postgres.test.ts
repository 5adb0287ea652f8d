import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { orderPostgres } from './postgres.ts';

it("only the user of PostgreSQL can read the file with the superuser's password", async () => {
  const { folder, user } = await orderPostgres(5432, { maxConnections: 10, password: 'secret' });
  try {
    const { mode, uid } = await stat(join(folder, 'password'));
    expect([mode & 0o777, uid]).toEqual([0o600, user?.uid ?? process.getuid!()]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
