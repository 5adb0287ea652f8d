/**
 * A host and a port as RFC 9112, section 3.2, and RFC 3986 permit them in `Host`: a name or an IPv4 address, or an address in
 * brackets. The name is not empty, because every URL of the service has one.
 */
const HOST = /^(?:\[[\w.~!$&'()*+,;=:%-]+\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})+)(?::\d*)?$/i;

/** clients of one address send the same value */
let lastValid: string | undefined;

/** Returns true if this is a valid value of `Host`. */
export function isHost(value: string): boolean {
  if (value === lastValid) return true;
  if (!HOST.test(value)) return false;
  lastValid = value;
  return true;
}
