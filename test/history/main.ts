import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { Command } from 'commander';
import { parseWhole } from '../../src/cli/common/arguments.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const values = new Command('node test/history/main.ts')
  .description('run random histories on real processes; exit code 1 if a response or a mirror is wrong')
  .option('--seed <n>', 'seed of the first history', parseWhole(0, 2 ** 31 - 1), 1)
  .option('--histories <n>', 'number of histories', parseWhole(1, 1_000_000), 200)
  .parse()
  .opts();
const files = ['--config', 'vitest.system.config.ts', 'test/system/history.test.ts'];
const env = { HISTORY_SEED: String(values.seed), HISTORIES: String(values.histories) };
const vitest = spawn(`${root}node_modules/.bin/vitest`, ['run', '--bail', '1', ...files], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, ...env },
});
const [code] = await once(vitest, 'exit');
process.exitCode = code ?? 1;
