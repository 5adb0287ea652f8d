import { registerHooks } from 'node:module';

/** Text of a module that is replaced when it is loaded. `file` is its path in the repository. */
export interface Replacement {
  file: string;
  from: string;
  to: string;
}

const HERE = new URL('.', import.meta.url).href;

/** What a simulation has another of, or none: connections, child processes, the HTTP library, and registers of a process. */
const OWN: Replacement[] = [
  {
    file: 'src/postgres/connect.ts',
    from: 'export function openDatabase(',
    to: `export { openDatabase } from '${HERE}sql.ts';\nexport function openRealDatabase(`,
  },
  {
    file: 'src/cluster/workers.ts',
    from: "import cluster, { type Worker } from 'node:cluster';",
    to: `import type { Worker } from 'node:cluster';\nimport { cluster } from '${HERE}instance.ts';`,
  },
  // what a killed worker has not released would count for all others, and keep its whole world
  {
    file: 'src/http/transfers.ts',
    from: 'const unfinished = new HeldBytes<() => void>();',
    to: 'const unfinished = { total: 0, set() {}, delete() {} };',
  },
];

/** Modules that are replaced as a whole. */
const WHOLE: Record<string, string> = {
  'src/http/server.ts': `import { present } from '${HERE}present.ts';
    export function openServer(operations, pipeline) { return present().onServer({ operations, pipeline }); }`,
  'src/api-docs/pages.ts': 'export function pagesOf() { return new Map(); }',
};

/** Loads the modules of the service with these texts replaced, besides what a simulation always replaces. */
export function hook(replacements: readonly Replacement[]): void {
  const root = new URL('../../', import.meta.url).href;
  const all = [...OWN, ...replacements];
  registerHooks({
    resolve(specifier, context, next) {
      const isOfService = context.parentURL?.startsWith(`${root}src/`);
      return isOfService && specifier === 'ioredis'
        ? next(`${HERE}ioredis.ts`, context)
        : next(specifier, context);
    },
    load(url, context, next) {
      const file = url.startsWith(root) ? url.slice(root.length) : '';
      const whole = WHOLE[file];
      if (whole !== undefined) return { format: 'module', source: whole, shortCircuit: true };
      const loaded = next(url, context);
      const own = all.filter((replacement) => replacement.file === file);
      if (own.length === 0) return loaded;
      let source = String(loaded.source);
      for (const { from, to } of own) {
        const parts = source.split(from);
        if (parts.length !== 2) throw new Error(`${file} has ${parts.length - 1} places like this: ${from}`);
        source = parts.join(to);
      }
      return { ...loaded, source };
    },
  });
}
