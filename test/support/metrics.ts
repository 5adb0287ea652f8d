import { parser } from '@prometheus-io/lezer-promql';

/** One line of an exposition. */
export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

/** Parses the samples of a text in Prometheus' format. */
export function samplesOf(exposition: string): Sample[] {
  return exposition
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels = '', value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line)!;
      const pairs = [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, text]) => [label, text]);
      return { name: name!, labels: Object.fromEntries(pairs), value: Number(value) };
    });
}

/** Returns the selectors of a query in PromQL, and the labels of its groupings; throws if it is invalid. */
export function parseQuery(text: string): Record<'selectors' | 'grouping', string[]> {
  const query = { selectors: [] as string[], grouping: [] as string[] };
  parser.parse(text).iterate({
    enter: ({ type, name, node, from, to }) => {
      if (type.isError) throw new Error(`invalid PromQL at ${from}: ${text}`);
      if (name === 'VectorSelector') query.selectors.push(text.slice(from, to));
      if (name === 'GroupingLabels')
        query.grouping.push(
          ...node.getChildren('LabelName').map((label) => text.slice(label.from, label.to)),
        );
    },
  });
  return query;
}
