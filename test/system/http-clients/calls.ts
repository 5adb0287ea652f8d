// Run by http-clients.test.ts: makes the same calls with one library and prints what each gave.

/** A response as the library hands it out, unpacked. */
interface Answer {
  status: number;
  header: (name: string) => string | undefined;
  text: string;
}
interface Request {
  method: 'GET' | 'HEAD' | 'POST';
  headers: Record<string, string>;
  body?: string | Buffer;
}
type Send = (url: string, request: Request) => Promise<Answer>;

const one = (value: unknown): string | undefined => (value === undefined ? undefined : String(value));

/** Each library with its defaults; no error status throws. */
const libraries: Record<string, () => Promise<Send>> = {
  async axios() {
    const { default: axios } = await import('axios');
    return async (url, { method, headers, body }) => {
      const options = {
        url,
        method,
        headers,
        data: body,
        validateStatus: null,
        responseType: 'text',
      } as const;
      const answer = await axios.request({ ...options, transformResponse: (text) => text });
      const text = answer.data ?? '';
      return { status: answer.status, header: (name) => one(answer.headers[name]), text };
    };
  },
  async got() {
    const { default: got } = await import('got');
    return async (url, options) => {
      const answer = await got(url, { ...options, throwHttpErrors: false });
      return { status: answer.statusCode, header: (name) => one(answer.headers[name]), text: answer.body };
    };
  },
  async undici() {
    const { request } = await import('undici');
    return async (url, options) => {
      const { statusCode, headers, body } = await request(url, options);
      return { status: statusCode, header: (name) => one(headers[name]), text: await body.text() };
    };
  },
  async fetch() {
    return async (url, options) => {
      const answer = await fetch(url, options as RequestInit);
      const header = (name: string) => answer.headers.get(name) ?? undefined;
      return { status: answer.status, header, text: await answer.text() };
    };
  },
};

const { HOTEL_API_URL: base = '', HOTEL_API_KEY: key = '' } = process.env;
const send = await libraries[process.argv[2]!]!();
const ask = (path: string, headers = {}, method: 'GET' | 'HEAD' = 'GET') =>
  send(new URL(path, base).href, { method, headers: { 'x-api-key': key, ...headers } });
const post = (path: string, body: string | Buffer, headers = {}) => {
  const all = { 'x-api-key': key, 'content-type': 'application/json', ...headers };
  return send(base + path, { method: 'POST', headers: all, body });
};

interface Hotel {
  id: string;
  channel_id: string | null;
}
const hotels: Hotel[] = [];
for (let path: string | undefined = '/hotels?limit=100'; path; ) {
  const page: Answer = await ask(path);
  hotels.push(...JSON.parse(page.text));
  const next: string | undefined = /<([^>]*)>; rel="next"/.exec(page.header('link') ?? '')?.[1];
  path = next && new URL(next, new URL(path, base)).href;
}

const path = `/hotels/${encodeURIComponent(hotels[0]!.id)}`;
const single = await ask(path);
const head = await ask(path, {}, 'HEAD');
const unchanged = await ask(path, { 'if-none-match': single.header('etag')! });
const missing = await ask('/hotels/missing');
const unauthorized = await ask(path, { 'x-api-key': 'wrong' });

const channelIds = hotels.flatMap(({ channel_id }) => channel_id ?? []).slice(0, 1000);
const batch = await post('/hotels/channel/batch', JSON.stringify({ channel_ids: channelIds }));
const found: Hotel[] = JSON.parse(batch.text);

console.log(
  JSON.stringify({
    listed: hotels.length,
    single: [single.status, JSON.parse(single.text).id],
    head: [head.status, Number(head.header('content-length')) > 0, head.text.length],
    unchanged: [unchanged.status, unchanged.text.length],
    missing: [missing.status, missing.header('x-error-code'), JSON.parse(missing.text).error],
    unauthorized: [
      ...[unauthorized.status, unauthorized.header('x-error-code')],
      unauthorized.header('www-authenticate'),
    ],
    batch: [batch.status, found.length, found.every(({ channel_id }, i) => channel_id === channelIds[i])],
  }),
);
