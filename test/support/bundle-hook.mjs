import { registerHooks } from 'node:module';

// replaces the files at which a process of the product starts by their bundles: see bundle.ts
const BUNDLE_OF = new Map(
  Object.entries({ 'main.ts': 'main.js', 'cluster/worker.ts': 'worker.js' }).map(([file, bundle]) => [
    new URL(`../../src/${file}`, import.meta.url).href,
    process.env.TEST_BUNDLE + bundle,
  ]),
);

// JavaScript, because Node would have to strip the types of a hook in TypeScript
registerHooks({
  load(url, context, next) {
    const bundle = BUNDLE_OF.get(url);
    if (bundle === undefined) return next(url, context);
    return { format: 'module', source: `import '${bundle}';`, shortCircuit: true };
  },
});
