import type { Sql } from 'postgres';
import type { Snapshot } from './history.ts';
import { hotelValue } from './violations.ts';

/** Reads the state with which responses are compared; hotels with ids from `z` on are only counted as present. */
export async function snapshotOf(sql: Sql): Promise<Snapshot> {
  const hotels = await sql`
    select id, name, description, channel_id, registry_id::float8 as registry_id from public.hotels
    where id < 'z' collate "C"`;
  const keys = await sql`
    select encode(key_sha256, 'hex') as hash, scopes, revoked_at is not null as revoked,
      (extract(epoch from expires_at) * 1000)::float8 as expires_ms
    from public.api_keys`;
  const snapshot: Snapshot = new Map();
  for (const hotel of hotels) {
    const value = hotelValue(hotel as never);
    snapshot.set(`hotel:${hotel.id}`, { value });
    if (hotel.channel_id !== null) snapshot.set(`channel:${hotel.channel_id}`, { value });
    if (hotel.registry_id !== null) snapshot.set(`registry:${hotel.registry_id}`, { value });
  }
  for (const { hash, scopes, revoked, expires_ms } of keys) {
    if (revoked || (expires_ms !== null && expires_ms <= Date.now() - 60_000)) continue;
    snapshot.set(`key:${hash}`, {
      value: scopes.includes('registry') ? '"full"' : '"narrow"',
      ...(expires_ms !== null && { expiresAtMs: expires_ms }),
    });
  }
  return snapshot;
}
