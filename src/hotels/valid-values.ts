/**
 * The patterns of values that the table holds to (sql/006-valid-rows.from-005.sql), for those that check a value before
 * it gets there. Strings, because they stand in schemas.
 */
const chars = (more: string) => `[A-Za-z0-9._~!$&'()*+,;=%${more}-]`;

/** Longest URI, in characters. */
export const MAX_URI_LENGTH = 2048;
/** An http or https URI by RFC 3986 whose host is a name or an IPv4 address. */
export const URI =
  `^(?!.*%(?![0-9A-Fa-f]{2}))[Hh][Tt][Tt][Pp][Ss]?://(?:${chars(':')}*@)?${chars('')}+(?::[0-9]{0,5})?` +
  `(?:[/?]${chars(':@/?')}*)?(?:#${chars(':@/?')}*)?$`;

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

/** Longest e-mail address, in characters: RFC 5321 has no room for a longer one. */
export const MAX_EMAIL_LENGTH = 254;
/** An e-mail address as HTML forms take it, with a dot in its domain, and with dots only between other characters. */
export const EMAIL = `^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`;
