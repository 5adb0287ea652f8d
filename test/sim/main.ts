import { hook, type Replacement } from './hooks.ts';

process.env.HOTEL_API_HASH_SEED = '5a'.repeat(32);
const mutation = process.env.SIM_MUTATION;
hook(mutation === undefined ? [] : [JSON.parse(mutation) as Replacement]);
const { main } = await import('./program.ts');
await main(process.argv.slice(2));
