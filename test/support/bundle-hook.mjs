import { registerHooks } from 'node:module';

// replaces the files at which a process of the product starts by their bundles: see bundle.ts
const { TEST_SOURCES, TEST_BUNDLES } = process.env;
const bundles = {
  [`${TEST_SOURCES}main.ts`]: `${TEST_BUNDLES}main.js`,
  [`${TEST_SOURCES}cluster/worker.ts`]: `${TEST_BUNDLES}worker.js`,
};

// JavaScript, because Node would have to strip the types of a hook in TypeScript
registerHooks({
  load(url, context, next) {
    const bundle = bundles[url];
    if (bundle === undefined) return next(url, context);
    return { format: 'module', source: `import '${bundle}';`, shortCircuit: true };
  },
});
