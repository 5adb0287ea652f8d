import { ownProgram } from './own-server.ts';

interface Alert {
  labels: Record<string, string>;
}

/** Alertmanager without receivers. */
export class Alertmanager {
  readonly #url: string;

  private constructor(url: string) {
    this.#url = url;
  }

  /** Runs `program` until the end of the file. The configuration needs neither a route nor receivers. */
  static async start(program: string, configuration: object): Promise<Alertmanager> {
    const complete = { route: { receiver: 'none' }, receivers: [{ name: 'none' }], ...configuration };
    const server = await ownProgram(
      (port, folder) => [
        program,
        `--config.file=${folder}/alertmanager.yml`,
        `--storage.path=${folder}/data`,
        `--web.listen-address=127.0.0.1:${port}`,
        '--cluster.listen-address=',
      ],
      () => ({ 'alertmanager.yml': JSON.stringify(complete) }),
      /Listening on/,
    );
    return new Alertmanager(`http://127.0.0.1:${server.port}/api/v2/alerts`);
  }

  async fire(alerts: Alert[]): Promise<void> {
    const headers = { 'content-type': 'application/json' };
    const { ok, status } = await fetch(this.#url, { method: 'POST', headers, body: JSON.stringify(alerts) });
    if (!ok) throw new Error(`Alertmanager responded with ${status}`);
  }

  /** Returns the alerts that fire and are not muted. */
  async active(): Promise<Alert[]> {
    const response = await fetch(`${this.#url}?active=true&inhibited=false&silenced=false`);
    return (await response.json()) as Alert[];
  }

  /** Returns the number of alerts, muted ones included. */
  async count(): Promise<number> {
    const response = await fetch(this.#url);
    return ((await response.json()) as Alert[]).length;
  }
}
