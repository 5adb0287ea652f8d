type Row = (string | number)[];

/** Separator below the head of a numeric column. */
export const RIGHT = '---:';

/** Returns a table in Markdown. */
export function table(head: string[], rows: Row[], align: string[] = []): string {
  const line = (cells: Row) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
  return [line(head), `|${head.map((_, i) => align[i] ?? '---').join('|')}|`, ...rows.map(line)].join('\n');
}

export const grouped = (value: number): string => value.toLocaleString('en-US');
