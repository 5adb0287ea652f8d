/**
 * Patterns of the table's constraints (sql/001-hotels.sql), for checks before a write. They are strings,
 * because schemas contain them.
 */
const chars = (more: string) => `[A-Za-z0-9._~!$&'()*+,;=%${more}-]`;

/** Http or https URI by RFC 3986 with a name or an IPv4 address as host. */
export const URI =
  `^(?!.*%(?![0-9A-Fa-f]{2}))[Hh][Tt][Tt][Pp][Ss]?://(?:${chars(':')}*@)?${chars('')}+(?::[0-9]{0,5})?` +
  `(?:[/?]${chars(':@/?')}*)?(?:#${chars(':@/?')}*)?$`;

const LABEL = '[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?';
const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";

/** E-mail address as HTML forms accept it, with a dot in its domain, and with dots only between other characters. */
export const EMAIL = `^${ATOM}(?:\\.${ATOM})*@(?:${LABEL}\\.)+${LABEL}$`;
