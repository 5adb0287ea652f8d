// Compiled by clients.test.ts: the client's hotel is that of the document.
import type { Hotel } from './client.ts';
import type { components } from './openapi.d.ts';

type Documented = components['schemas']['Hotel'];
type Same<A, B> = [A, B] extends [B, A] ? (keyof A extends keyof B ? true : false) : false;

export const isSame: Same<Documented, Hotel> & Same<Hotel, Documented> = true;
