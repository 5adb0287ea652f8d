import { fillGuide } from '../../../src/api-docs/pages.ts';
import { renderGuide } from './guide.ts';

/** Deployment whose guide is shown. */
const DEPLOYMENT = { BASE_PATH: '', PUBLIC_URL: 'https://hotels.example.com', SUPPORT_EMAIL: '' };
const OPENAPI = '../../src/api-docs/page/openapi.json';
const EXAMPLES = 'clients/';
const MADE = '<!-- Made from build/guide.html by `npm run build:docs`. -->';
const NOTE = `The page \`/docs\` of a running service is this guide with a reference in which requests can be tried.
[openapi.json](${OPENAPI}) is the OpenAPI document: every operation, parameter, header and schema.
[Errors](../errors.md) has the causes of errors without a code, [Guarantees](../guarantees.md) the bounds of freshness.`;
/** Longest example that is shown; longer ones are linked. */
const MAX_LINES = 30;

/** Returns the guide of the page /docs as Markdown. It knows the elements that guide.html uses, and no others. */
export function guideAsMarkdown(): string {
  const html = fillGuide(renderGuide(), DEPLOYMENT);
  const sections = [...html.matchAll(/<section(?: id="([\w-]+)")?[^>]*>([\s\S]*?)<\/section>/g)].filter(
    ([, id]) => id !== 'reference',
  );
  const titles = new Map(sections.map(([, id, body]) => [id, /<h2>(.*?)<\/h2>/.exec(body!)?.[1]]));
  const link = (target: string): string => {
    if (target === '#reference') return OPENAPI;
    if (target.startsWith('#')) {
      const title = titles.get(target.slice(1));
      if (!title) throw new Error(`the guide has no section ${target}`);
      return `#${title.toLowerCase().replaceAll(' ', '-')}`;
    }
    return target.replace('/docs/examples/', EXAMPLES).replace(/^\/openapi\.json/, OPENAPI);
  };
  const inline = (text: string): string =>
    decoded(
      text
        .replace(/<code>(.*?)<\/code>/gs, '`$1`')
        .replace(/<b[^>]*>(.*?)<\/b>/gs, '**$1** ')
        .replace(/<i>(.*?)<\/i>/gs, ' ($1)')
        .replace(/<a href="([^"]*)">(.*?)<\/a>/gs, (_, target, title) => `[${title}](${link(target)})`)
        .replace(/<[^>]+>/g, '')
        .replace(/\s+([,.:]?)/g, (_, mark) => mark || ' ')
        .trim(),
    );
  const table = (body: string): string => {
    const rows = [...body.matchAll(/<tr>(.*?)<\/tr>/gs)].map(([, row]) =>
      [...row!.matchAll(/<t[hd]>(.*?)<\/t[hd]>/gs)].map(([, text]) => inline(text!)),
    );
    const lines = rows.map((cells) => `| ${cells.join(' | ')} |`);
    return [lines[0], `|${'---|'.repeat(rows[0]!.length)}`, ...lines.slice(1)].join('\n');
  };
  const code = (title: string, text: string): string => {
    const file = /examples\/([\w.-]+)"/.exec(title)?.[1];
    if (file && text.split('\n').length > MAX_LINES) return `- [${file}](${EXAMPLES}${file})`;
    const language = title === 'json' ? 'json' : file?.endsWith('.ts') ? 'ts' : 'sh';
    return `\`\`\`${language}\n${decoded(text.replace(/<[^>]+>/g, ''))}\n\`\`\``;
  };
  const block =
    /<h1>(.*?)<\/h1>|<h2>(.*?)<\/h2>|<p[^>]*>(.*?)<\/p>|<(ul|ol)[^>]*>(.*?)<\/\4>|<table[^>]*>(.*?)<\/table>|<figcaption>(.*?)<\/figcaption><pre[^>]*><code>(.*?)<\/code>/gs;
  const parts = sections.flatMap(([, , body]) =>
    [...body!.matchAll(block)].map(([, h1, h2, p, list, items, rows, title, text]) => {
      if (h1) return `# ${inline(h1)}`;
      if (h2) return `## ${inline(h2)}`;
      if (p) return inline(p);
      if (rows) return table(rows);
      if (list)
        return [...items!.matchAll(/<li>(.*?)<\/li>/gs)]
          .map(([, item]) => `- ${inline(item!.replace('<span>', ': '))}`)
          .map((line, i) => (list === 'ol' ? line.replace('-', `${i + 1}.`) : line))
          .join('\n');
      return code(title!, text!);
    }),
  );
  const contents = [...titles].flatMap(([id, title]) =>
    id && title ? [`[${title}](${link(`#${id}`)})`] : [],
  );
  return `${[MADE, parts[0], NOTE, contents.join(' · '), ...parts.slice(1)].join('\n\n')}\n`.replace(
    /^(- \[.*)\n\n(?=- \[)/gm,
    '$1\n',
  );
}

/** Resolves character references; those of the guide are decimal or named. */
function decoded(text: string): string {
  const named: Record<string, string> = { lt: '<', gt: '>', amp: '&', quot: '"' };
  return text.replace(/&(?:#(\d+)|(\w+));/g, (whole, number, name) =>
    number ? String.fromCharCode(Number(number)) : (named[name] ?? whole),
  );
}
