import { registerHooks } from 'node:module';

// replaces the files at which a process of the product starts by their bundles: see bundle.ts
const ENTRY = /\/src\/(?:cluster\/)?(main|worker)\.ts$/;

// JavaScript, because Node would have to strip the types of a hook in TypeScript
registerHooks({
  load(url, context, next) {
    const [, name] = ENTRY.exec(url) ?? [];
    if (name === undefined) return next(url, context);
    const source = `import '${process.env.TEST_BUNDLES}${name}.js';`;
    return { format: 'module', source, shortCircuit: true };
  },
});
