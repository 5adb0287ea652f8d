import { type Context, phrasesOf } from './contexts.ts';

/** The script for bash, 3.2 or newer, without other packages. Where nothing of ours fits, bash completes file names. */
export function bashScript(name: string, contexts: Context[]): string {
  const { commands, valued } = phrasesOf(contexts);
  const list = (words: { word: string }[]) => words.map(({ word }) => word).join(' ');
  return `# bash completion for ${name}: source <(${name} completion bash)
_hotel_api() {
  local cur=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD - 1]} path='' words='' options='' files='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${path:+$path }\${COMP_WORDS[i]}" in
      ${commands.map((words) => `'${words}'`).join(' | ')}) path="\${path:+$path }\${COMP_WORDS[i]}" ;;
    esac
  done
  case "\${path:+$path }$before" in
    ${valued.map((words) => `'${words}'`).join(' | ')}) return ;;
  esac
  case "$path" in
${contexts
  .map(
    ({ path, words, options, takesFile }) =>
      `    '${path.join(' ')}') words='${list(words)}' options='${list(options)}'${takesFile ? ' files=1' : ''} ;;`,
  )
  .join('\n')}
  esac
  if [[ $cur == -* ]] || [[ -z $words && -z $files ]]; then words=$options; fi
  local IFS=$' \\n'
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  if [[ -z $files ]] && type compopt &>/dev/null; then compopt +o default; fi
}
complete -o default -F _hotel_api ${name}
`;
}
