/**
 * Generates the resources of the Prometheus operator: prometheus-rule.yaml from rules.yaml, and alertmanager-config.yaml from
 * alertmanager.yaml. With `--check` it writes nothing and fails if a committed file differs.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parse, stringify } from 'yaml';

const pathOf = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const read = (name: string) => readFileSync(pathOf(name), 'utf8');

function head(source: string, apiVersion: string, kind: string): string {
  return `# Made of ${source} by \`npm run build:rules\`: change that file.
apiVersion: ${apiVersion}
kind: ${kind}
metadata:
  name: hotel-api
  labels:
    app.kubernetes.io/name: hotel-api
spec:
`;
}

/** The same text, deeper by one level. */
const indented = (text: string) => text.replaceAll(/^(?=.)/gm, '  ');

interface InhibitRule {
  source_matchers: string[];
  target_matchers: string[];
  equal: string[];
}

/** A matcher of Alertmanager, `name=~"value"`, as the operator's fields. */
function matcher(text: string): { name: string; matchType: string; value: string } {
  const [, name, matchType, value] = /^(\w+)(=~|!~|!=|=)"(.*)"$/.exec(text)!;
  return { name: name!, matchType: matchType!, value: value! };
}

function inhibitRules(): string {
  const { inhibit_rules: rules } = parse(read('alertmanager.yaml')) as { inhibit_rules: InhibitRule[] };
  const inhibitRules = rules.map(({ source_matchers, target_matchers, equal }) => ({
    sourceMatch: source_matchers.map(matcher),
    targetMatch: target_matchers.map(matcher),
    equal,
  }));
  return stringify({ inhibitRules }, { lineWidth: 0 });
}

const RESOURCES = {
  'prometheus-rule.yaml':
    head('rules.yaml', 'monitoring.coreos.com/v1', 'PrometheusRule') + indented(read('rules.yaml')),
  'alertmanager-config.yaml':
    head('alertmanager.yaml', 'monitoring.coreos.com/v1alpha1', 'AlertmanagerConfig') +
    indented(inhibitRules()),
};

for (const [name, text] of Object.entries(RESOURCES)) {
  if (!process.argv.includes('--check')) writeFileSync(pathOf(name), text);
  else if (read(name) !== text) {
    console.error(`${name} is not what its source yields: run \`npm run build:rules\``);
    process.exitCode = 1;
  }
}
