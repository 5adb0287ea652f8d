import { defineConfig } from '@kubb/core';
import { pluginClient } from '@kubb/plugin-client';
import { pluginOas } from '@kubb/plugin-oas';
import { pluginTs } from '@kubb/plugin-ts';
import { pluginZod } from '@kubb/plugin-zod';

export default defineConfig({
  input: { path: './openapi.json' },
  output: { path: './generated/kubb', format: false, lint: false },
  plugins: [
    pluginOas({ validate: true }),
    pluginTs({ output: { path: 'types' } }),
    pluginZod({ output: { path: 'zod' }, version: '4' }),
    pluginClient({ output: { path: 'client' }, client: 'fetch', parser: 'zod' }),
  ],
});
