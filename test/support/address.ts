/** Returns the address of a server with another database, login or password. */
export function addressOf(
  url: string,
  other: { database?: string; username?: string; password?: string },
): string {
  const { database, ...login } = other;
  return Object.assign(new URL(url), { ...(database && { pathname: `/${database}` }), ...login }).href;
}
