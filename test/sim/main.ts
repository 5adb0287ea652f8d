import { hook, type Replacement } from './hooks.ts';

process.env.HOTEL_API_HASH_SEED = '5a'.repeat(32);
const mutation = process.env.SIM_MUTATION;
hook(mutation === undefined ? [] : [JSON.parse(mutation) as Replacement]);
if (process.argv.includes('--mutations')) {
  const { checkMutations } = await import('./mutations.ts');
  process.exitCode = (await checkMutations()) > 0 ? 1 : 0;
} else {
  const { main } = await import('./program.ts');
  await main(process.argv.slice(2));
}
