const target = (name, client) => ({
  input: './openapi.json',
  output: {
    target: `./generated/orval/${name}.ts`,
    client,
    mode: 'single',
    baseUrl: process.env.HOTEL_API_URL,
    // else an id with a slash is another path
    urlEncodeParameters: true,
  },
});

export default { client: target('client', 'fetch'), schemas: target('schemas', 'zod') };
