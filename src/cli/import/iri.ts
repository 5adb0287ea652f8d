import { domainToASCII } from 'node:url';

/** RFC 3987, section 2.2: characters that are valid in an IRI but not in a URI. */
const BEYOND_ASCII =
  /[\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}\u{10000}-\u{dfffd}\u{e1000}-\u{efffd}]+/gu;
/** No domain is longer, and converting one takes quadratic time. */
const MAX_DOMAIN_LENGTH = 253;
const HOST = /^(https?:\/\/(?:[^/?#@]*@)?)([^/?#:@]+)/i;

/**
 * Converts an http or https IRI to the equivalent URI (RFC 3987, section 3.1). The host becomes punycode, other
 * non-ASCII characters the percent-encoding of their UTF-8. Blanks after the host become `%20`, and those around the IRI
 * are dropped, as browsers do. All else is unchanged, valid or not. Returns an IRI without a valid domain unchanged.
 */
export function toUri(iri: string): string {
  // the second expression begins at the first of several blanks only: at each it would take quadratic time
  const trimmed = iri.replace(/^ +|(?<! ) +$/g, '');
  const [start = '', before = '', host = ''] = HOST.exec(trimmed) ?? [];
  const isDomainInAscii = host.search(BEYOND_ASCII) < 0;
  const isDomain = host.length <= MAX_DOMAIN_LENGTH;
  const domain = isDomainInAscii ? host : isDomain ? domainToASCII(host) : '';
  if (domain === '') return iri;
  const rest = trimmed.slice(start.length).replaceAll(' ', '%20');
  return (before + domain + rest).replace(BEYOND_ASCII, encodeURIComponent);
}
