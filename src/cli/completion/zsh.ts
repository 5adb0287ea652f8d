import { type Context, phrasesOf, type Word } from './contexts.ts';

/** The script for zsh: works when it is sourced after compinit, and as a file `_hotel-api` of the fpath. */
export function zshScript(name: string, contexts: Context[]): string {
  const { commands, valued } = phrasesOf(contexts);
  return `#compdef ${name}
# zsh completion for ${name}: source <(${name} completion zsh)
_hotel_api() {
  local trail='' files='' word
  local -a items options
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${trail:+$trail }$word" in
      ${commands.map(quote).join(' | ')}) trail="\${trail:+$trail }$word" ;;
    esac
  done
  case "\${trail:+$trail }\${words[CURRENT-1]}" in
    ${valued.map(quote).join(' | ')}) _message value; return ;;
  esac
  case "$trail" in
${contexts
  .map(
    ({ path, words, options, takesFile }) =>
      `    ${quote(path.join(' '))})
      items=(${words.map(item).join(' ')})
      options=(${options.map(item).join(' ')})${takesFile ? '\n      files=1' : ''} ;;`,
  )
  .join('\n')}
  esac
  if [[ $words[CURRENT] == -* ]] || [[ -z $items && -z $files ]]; then
    _describe option options
  elif [[ -n $files ]]; then
    _files
  else
    _describe command items
  fi
}
if [[ $funcstack[1] == _${name} ]]; then _hotel_api "$@"; else compdef _hotel_api ${name}; fi
`;
}

function item({ word, description }: Word): string {
  return quote(`${word.replaceAll(':', '\\:')}${description && `:${description}`}`);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
