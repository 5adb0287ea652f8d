import { registerHooks } from 'node:module';

// replaces the files at which a process of the product starts by their bundles: see bundle.ts
const bundles = JSON.parse(process.env.TEST_BUNDLES);

// JavaScript, because Node would have to strip the types of a hook in TypeScript
registerHooks({
  load(url, context, next) {
    const bundle = bundles[url];
    if (bundle === undefined) return next(url, context);
    return { format: 'module', source: `import '${bundle}';`, shortCircuit: true };
  },
});
