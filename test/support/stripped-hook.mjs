import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { registerHooks } from 'node:module';
import { fileURLToPath } from 'node:url';

// JavaScript, because a hook in TypeScript would have to be stripped first
registerHooks({
  load(url, context, next) {
    if (!url.endsWith('.ts')) return next(url, context);
    const name = createHash('sha1').update(readFileSync(fileURLToPath(url))).digest('hex');
    try {
      const source = readFileSync(new URL(`../../node_modules/.cache/stripped/${name}.js`, import.meta.url));
      return { format: 'module', source, shortCircuit: true };
    } catch {
      return next(url, context);
    }
  },
});
