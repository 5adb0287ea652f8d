import type { Context } from './contexts.ts';

/** The script for fish. */
export function fishScript(name: string, contexts: Context[]): string {
  const lines = contexts.flatMap(({ path, words, options, takesFile }) => {
    const inner = words.map(({ word }) => word).join(' ');
    const behind = path.map((word) => `__fish_seen_subcommand_from ${word}`).join('; and ');
    const here = [behind, inner && `not __fish_seen_subcommand_from ${inner}`].filter(Boolean).join('; and ');
    const when = here && ` -n ${quote(here)}`;
    return [
      ...words.map(
        ({ word, description }) =>
          `complete -c ${name}${when} -a ${word}${description && ` -d ${quote(description)}`}`,
      ),
      ...options.map(
        ({ word, description, takesValue }) =>
          `complete -c ${name}${when} -l ${word.slice(2)}${takesValue ? ' -x' : ''} -d ${quote(description)}`,
      ),
      ...(takesFile ? [`complete -c ${name}${when} -F`] : []),
    ];
  });
  return [
    `# fish completion for ${name}: ${name} completion fish > ~/.config/fish/completions/${name}.fish`,
    `complete -c ${name} -f`,
    ...lines,
    '',
  ].join('\n');
}

function quote(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
