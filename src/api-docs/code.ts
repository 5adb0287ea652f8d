export function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (mark) => `&#${mark.charCodeAt(0)};`);
}

/** Comments, strings and keywords of the languages of the examples. */
const MARKS: Record<string, RegExp> = {
  ts: /(?<c>\/\/.*|\/\*[\s\S]*?\*\/)|(?<s>'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`|"(?:\\.|[^"\\\n])*")|(?<k>\b(?:async|await|break|catch|class|const|export|extends|for|from|function|if|import|let|new|of|private|readonly|return|super|this|throw|try|type|while|yield)\b)/g,
  py: /(?<c>#.*|"""[\s\S]*?""")|(?<s>f?"(?:\\.|[^"\\\n])*"|f?'(?:\\.|[^'\\\n])*')|(?<k>\b(?:and|as|class|def|del|except|for|from|if|import|in|is|None|not|or|raise|return|self|try|while|with|yield)\b)/g,
  sh: /(?<c>(?<=^|\s)#.*)|(?<s>'[^']*'|"(?:\\.|[^"\\])*")|(?<k>\b(?:curl|do|done|export|sed|set|while)\b)/g,
  json: /(?<s>"(?:\\.|[^"\\\n])*")/g,
};

/** Converts code to HTML with marked comments, strings and keywords. */
export function highlight(code: string, language: string): string {
  let html = '';
  let at = 0;
  for (const match of code.matchAll(MARKS[language]!)) {
    const kind = Object.entries(match.groups!).find(([, text]) => text !== undefined)![0];
    html += `${escapeHtml(code.slice(at, match.index))}<span class="${kind}">${escapeHtml(match[0])}</span>`;
    at = match.index + match[0].length;
  }
  return html + escapeHtml(code.slice(at));
}
