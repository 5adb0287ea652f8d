type Row = (string | number)[];

/** Returns a table in Markdown. The columns after the first `textColumns` are aligned to the right, as numbers are. */
export function table(head: string[], rows: Row[], textColumns = head.length): string {
  const line = (cells: Row) => `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`;
  const rules = head.map((_, column) => (column < textColumns ? '---' : '---:'));
  return [line(head), `|${rules.join('|')}|`, ...rows.map(line)].join('\n');
}
