import { ownProgram } from './own-server.ts';

/** Series of a query's result. */
interface Series {
  metric: Record<string, string>;
  value: [timeSeconds: number, value: string];
}

interface AlertingRule {
  name: string;
  health: string;
  lastError?: string;
}

/** Prometheus that scrapes one admin port. */
export class Prometheus {
  readonly #url: string;

  private constructor(url: string) {
    this.#url = url;
  }

  /** Runs `program` until the end of the file; it scrapes, and evaluates `rulesFile`, every half second. */
  static async start(program: string, adminPort: number, rulesFile: string): Promise<Prometheus> {
    const targets = [`127.0.0.1:${adminPort}`];
    const config = {
      global: { scrape_interval: '500ms', scrape_timeout: '500ms', evaluation_interval: '500ms' },
      rule_files: [rulesFile],
      scrape_configs: [
        { job_name: 'hotel-api', static_configs: [{ targets, labels: { namespace: 'test', pod: 'one' } }] },
      ],
    };
    const server = await ownProgram(
      (port, folder) => [
        program,
        `--config.file=${folder}/prometheus.yml`,
        `--storage.tsdb.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      () => ({ 'prometheus.yml': JSON.stringify(config) }),
      /Server is ready to receive web requests/,
    );
    return new Prometheus(`http://127.0.0.1:${server.port}/api/v1`);
  }

  /** Returns the current series of a query; throws the error of Prometheus for an invalid one. */
  async query(query: string): Promise<Series[]> {
    const { result } = await this.#get<{ result: Series[] }>('query', { query });
    return result;
  }

  async rules(): Promise<AlertingRule[]> {
    const { groups } = await this.#get<{ groups: { rules: AlertingRule[] }[] }>('rules');
    return groups.flatMap(({ rules }) => rules);
  }

  async labelValues(label: string, match: string): Promise<string[]> {
    return this.#get(`label/${label}/values`, { 'match[]': match });
  }

  async #get<T>(path: string, parameters: Record<string, string> = {}): Promise<T> {
    const response = await fetch(`${this.#url}/${path}?${new URLSearchParams(parameters)}`);
    const { status, data, error } = (await response.json()) as { status: string; data: T; error?: string };
    if (status !== 'success') throw new Error(`${error}: ${JSON.stringify(parameters)}`);
    return data;
  }
}
