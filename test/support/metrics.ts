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

/** Selector of a query: a metric and its label matchers. */
interface Selector {
  metric: string;
  matches: (sample: Sample) => boolean;
  text: string;
}

interface Query {
  selectors: Selector[];
  /** labels of the grouping */
  grouping: string[];
}

/** Parses PromQL; throws if it is invalid. */
export function parseQuery(text: string): Query {
  const query: Query = { selectors: [], grouping: [] };
  const words = (from: number, to: number) => text.slice(from, to);
  parser.parse(text).iterate({
    enter: (node) => {
      if (node.type.isError) throw new Error(`invalid PromQL at ${node.from}: ${text}`);
      if (node.name === 'VectorSelector')
        query.selectors.push(readSelector(words(node.from, node.to), node.node));
      if (node.name === 'GroupingLabels') {
        for (const label of node.node.getChildren('LabelName'))
          query.grouping.push(words(label.from, label.to));
      }
    },
  });
  return query;
}

function readSelector(text: string, node: { from: number } & Parameters<typeof childrenOf>[0]): Selector {
  const metric = /^[\w:]+/.exec(text)![0];
  const matchers = childrenOf(node).map(({ from, to }) => {
    const [, label, operator, value] = /^(\w+)\s*(=~|!~|!=|=)\s*"(.*)"$/s.exec(
      text.slice(from - node.from, to - node.from),
    )!;
    const isWanted = operator!.endsWith('~')
      ? (given: string) => new RegExp(`^(?:${value})$`).test(given)
      : (given: string) => given === value;
    const negative = operator!.startsWith('!');
    return (sample: Sample) => isWanted(sample.labels[label!] ?? '') !== negative;
  });
  return {
    metric,
    text,
    matches: (sample) => sample.name === metric && matchers.every((matcher) => matcher(sample)),
  };
}

interface Node {
  from: number;
  to: number;
  getChild(name: string): Node | null;
  getChildren(name: string): Node[];
}

function childrenOf(selector: Node): Node[] {
  return selector.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
}
