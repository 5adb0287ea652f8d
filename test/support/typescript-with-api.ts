import { registerHooks } from 'node:module';

// TypeScript 7 has no API for other programs yet; openapi-typescript gets that of TypeScript 5.
registerHooks({
  resolve: (name, context, next) =>
    next(name === 'typescript' ? '@ts-morph/common/dist/typescript.js' : name, context),
});
