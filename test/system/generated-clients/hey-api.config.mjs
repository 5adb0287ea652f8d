export default {
  input: './openapi.json',
  output: './generated/hey-api',
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', 'zod', { name: '@hey-api/sdk', validator: true }],
};
