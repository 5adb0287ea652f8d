/**
 * Makes prometheus-rule.yaml, the resource of the Prometheus operator, of rules.yaml: the same text, deeper by one
 * level. With `--check` it writes nothing and fails when the committed file is another.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const [RULES, RESOURCE] = ['rules.yaml', 'prometheus-rule.yaml'].map((name) =>
  fileURLToPath(new URL(name, import.meta.url)),
) as [string, string];

const HEAD = `# Made of rules.yaml by \`npm run build:rules\`: change that file.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: hotel-api
  labels:
    app.kubernetes.io/name: hotel-api
spec:
`;

const indented = readFileSync(RULES, 'utf8').replaceAll(/^(?=.)/gm, '  ');
if (!process.argv.includes('--check')) writeFileSync(RESOURCE, HEAD + indented);
else if (readFileSync(RESOURCE, 'utf8') !== HEAD + indented) {
  console.error('prometheus-rule.yaml is not what rules.yaml yields: run `npm run build:rules`');
  process.exitCode = 1;
}
