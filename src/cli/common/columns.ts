/** Returns rows of cells as lines, in columns of equal width. */
export function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const padded = rows.map((row) => row.map((cell, column) => cell.padEnd(widths[column]!)));
  return padded.map((row) => row.join('  ').trimEnd()).join('\n');
}
