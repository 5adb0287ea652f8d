import { domainToASCII } from 'node:url';

/** RFC 3987, section 2.2: the characters that an IRI may hold and a URI may not. */
const BEYOND_ASCII =
  /[\u{a0}-\u{d7ff}\u{f900}-\u{fdcf}\u{fdf0}-\u{ffef}\u{10000}-\u{dfffd}\u{e1000}-\u{efffd}]+/gu;
const HOST = /^(https?:\/\/(?:[^/?#@]*@)?)([^/?#:@]+)/i;

/**
 * Converts an http or https IRI to the URI that means the same (RFC 3987, section 3.1): the host becomes punycode, other
 * characters beyond ASCII become the percent-encoding of their UTF-8. Nothing else is changed, be it valid or not. An IRI
 * without a valid domain is returned as it is.
 */
export function toUri(iri: string): string {
  const [start = '', before = '', host = ''] = HOST.exec(iri) ?? [];
  const isDomainInAscii = host.search(BEYOND_ASCII) < 0;
  const domain = isDomainInAscii ? host : domainToASCII(host);
  if (domain === '') return iri;
  return (before + domain + iri.slice(start.length)).replace(BEYOND_ASCII, encodeURIComponent);
}
