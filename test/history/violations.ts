import type { History } from './history.ts';

/** Request of a client. */
export type ReadRequest =
  | { by: 'hotel' | 'channel' | 'registry'; id: string }
  | { by: 'channels' | 'registries'; ids: string[] }
  | { by: 'list' };

/** Request and response. Times are of `performance.now()`. */
export interface Exchange {
  request: ReadRequest;
  /** sha256 of the key */
  key: string;
  sentMs: number;
  receivedMs: number;
  status: number;
  body: string;
}

/** Response that was not right at any relevant time. */
export interface Violation {
  sentence: string;
  /** subject whose history decides */
  subject: string;
}

type Shown = Record<'id' | 'name' | 'description' | 'channel_id' | 'registry_id', unknown>;

/** Returns a hotel in the form of the histories. */
export function hotelValue({ id, name, description, channel_id, registry_id }: Shown): string {
  return JSON.stringify([id, name, description, channel_id, registry_id]);
}

/** Compares a response with all states between `reachMs` and its receipt; undefined if it is right. */
export function findViolation(history: History, reachMs: number, exchange: Exchange): Violation | undefined {
  const { request, key, receivedMs, status, body } = exchange;
  const possible = (subject: string) => history.possible(subject, reachMs, receivedMs);
  const keySubject = `key:${key}`;
  const scopes = possible(keySubject);
  const wrongKey = (sentence: string): Violation => ({ sentence, subject: keySubject });
  const needsRegistry = request.by === 'registry' || request.by === 'registries';
  const isAccepted = scopes.includes('"full"') || (!needsRegistry && scopes.includes('"narrow"'));

  if (status === 503) return undefined;
  if (status === 401)
    return scopes.includes('null') ? undefined : wrongKey('401, though the key was valid throughout');
  if (status === 403)
    return needsRegistry && scopes.includes('"narrow"')
      ? undefined
      : wrongKey('403, though the key did not lack the scope');
  if (status !== 200 && status !== 404) return wrongKey(`status ${status}: ${body.slice(0, 200)}`);
  if (!isAccepted) return wrongKey(`${status}, though the key was not valid for this at any time`);

  const found = elementsOf(history, exchange);
  if ('sentence' in found) return found;
  for (const [subject, shown] of found.elements) {
    const values = possible(subject);
    if (!values.some((value) => matches(value, shown, scopes))) {
      const sentence = shown ? `the response shows ${hotelValue(shown)}` : 'the response shows no such hotel';
      return { sentence: `${sentence}, which was not true at any relevant time`, subject };
    }
  }
  return undefined;
}

function matches(value: string, shown: Shown | null, scopes: string[]): boolean {
  if (shown === null || value === 'null') return (value === 'null') === (shown === null);
  if (scopes.includes('"full"') && value === hotelValue(shown)) return true;
  if (!scopes.includes('"narrow"') || shown.registry_id !== null) return false;
  return JSON.stringify([...JSON.parse(value).slice(0, 4), null]) === hotelValue(shown);
}

/** Returns for every subject of the request the hotel in the response. */
function elementsOf(
  history: History,
  { request, status, body }: Exchange,
): { elements: Map<string, Shown | null> } | Violation {
  const isSingle = 'id' in request;
  const elements = new Map<string, Shown | null>();
  const kind = ({ channels: 'channel', registries: 'registry', list: 'hotel' } as Record<string, string>)[
    request.by
  ];
  if (isSingle) {
    const subject = `${request.by}:${request.id}`;
    if (status === 404) return { elements: elements.set(subject, null) };
    const shown = parse(body);
    if (shown === undefined || Array.isArray(shown))
      return { sentence: `no hotel: ${body.slice(0, 200)}`, subject };
    return { elements: elements.set(subject, shown as Shown) };
  }
  const requested =
    request.by === 'list'
      ? history.subjects('hotel').filter((subject) => isListed(subject.slice('hotel:'.length)))
      : request.ids.map((id) => `${kind}:${id}`);
  const shown = parse(body);
  const fault = (what: string): Violation => ({
    sentence: `${what}: ${body.slice(0, 200)}`,
    subject: requested[0] ?? '',
  });
  if (status === 404 || !Array.isArray(shown)) return fault('no list of hotels');
  const field = { hotel: 'id', channel: 'channel_id', registry: 'registry_id' }[kind!] as keyof Shown;
  for (const subject of requested) elements.set(subject, null);
  const order: string[] = [];
  for (const hotel of shown as Shown[]) {
    if (request.by === 'list' && !isListed(String(hotel.id))) continue;
    const subject = `${kind}:${hotel[field]}`;
    if (elements.get(subject)) return fault(`${subject} twice`);
    if (request.by !== 'list' && !elements.has(subject)) return fault(`${subject} was not requested`);
    elements.set(subject, hotel);
    order.push(subject);
  }
  // ids are ASCII, so this is byte order
  const wanted =
    request.by === 'list' ? order.toSorted() : requested.filter((subject) => elements.get(subject));
  if (wanted.join() !== order.join()) return fault('out of order');
  return { elements };
}

/** Returns true for the first hotels; others of the page are not checked. */
const isListed = (id: string) => id < 'i';

function parse(body: string): unknown {
  try {
    return JSON.parse(body) ?? undefined;
  } catch {
    return undefined;
  }
}
