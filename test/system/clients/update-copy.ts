// Run by sqlite-copy.test.ts beside the client: updates the copy once, and prints its rows and the error.
import { DatabaseSync } from 'node:sqlite';
import { HotelApi } from './client.ts';
import { updateCopy } from './sqlite-copy.ts';

const { HOTEL_API_URL: url = '', HOTEL_API_KEY: key = '' } = process.env;
const db = new DatabaseSync(process.argv[2]!);
const error = await updateCopy(new HotelApi({ url, key }), db).then(
  () => null,
  ({ message }: Error) => message,
);
const rows = db.prepare('select id, channel_id, registry_id, hotel from hotels order by id').all();
console.log(JSON.stringify({ error, rows }));
