import * as uws from 'uWebSockets.js';

export { us_listen_socket_close } from 'uWebSockets.js';

/** What the library's types omit. */
interface Untyped {
  _cfg(setting: 'silent'): void;
}
type App = ReturnType<typeof uws.App> & {
  /** Calls back for each connection: `delta` is 1 when it opens and -1 when it closes. */
  filter(receive: (connection: { close(): void }, delta: number) => void): App;
};

export const App = uws.App as unknown as () => App;

/** Removes the library's name from every response. Some builds of the library export the function in `default` only. */
export function silence(): void {
  const { _cfg, default: rest } = uws as unknown as Untyped & { default?: Untyped };
  (_cfg ?? rest!._cfg)('silent');
}
