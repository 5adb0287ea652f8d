import type { OwnServer } from './own-server.ts';
import type { FaultProxy } from './proxy.ts';

/** Fault of a server or of the path to it; it lasts until `end` has resolved. */
export interface Fault {
  begin: () => unknown;
  end: () => unknown;
}

/** Server with the path by which services reach it. */
export interface Reached {
  server: OwnServer;
  proxy: FaultProxy;
}

/** Longer than the deadlines of Redis in tests. */
const SLOW_MS = 800;
const nothing = () => {};

/** Returns the faults that any server may have, by their sentences. */
export const faultsOf = ({ server, proxy }: Reached) =>
  ({
    'is frozen': { begin: () => server.freeze(), end: () => server.thaw() },
    'is killed': { begin: () => server.kill(), end: () => server.restart() },
    'responds late': { begin: () => proxy.delay(SLOW_MS), end: () => proxy.heal() },
    'is unreachable: connections stay open and no byte passes': {
      begin: () => proxy.blackout(),
      end: () => proxy.heal(),
    },
    'is behind a proxy that accepts connections and ends them': {
      begin: () => proxy.endEach(),
      end: () => proxy.heal(),
    },
    'has lost the far end of every connection': { begin: () => proxy.halfOpen(), end: nothing },
    'has reset every connection': { begin: () => proxy.reset(), end: nothing },
  }) satisfies Record<string, Fault>;
