/** Line of the service's log. */
interface LogLine {
  level: string;
  msg: string;
  // biome-ignore lint/suspicious/noExplicitAny: each message has fields of its own
  [field: string]: any;
}

/** Parses the complete lines among those that a service printed; with `msg` only lines of that message. */
export function linesOf(printed: string[], msg?: string): LogLine[] {
  return printed
    .filter((line) => line.startsWith('{') && line.endsWith('}'))
    .map((line): LogLine => JSON.parse(line))
    .filter((line) => msg === undefined || line.msg === msg);
}

/** Returns the lines of the levels error and fatal, but for those about a dependency, which no request causes. */
export function errorsIn(printed: string[]): LogLine[] {
  return linesOf(printed).filter(({ level, dependency }) => /error|fatal/.test(level) && !dependency);
}

/** Returns the reasons why the service was not ready, in order. */
export function notReadyReasons(printed: string[]): string[] {
  return linesOf(printed)
    .filter(({ msg }) => msg.includes('dependency not ready'))
    .map(({ reason }) => reason);
}
