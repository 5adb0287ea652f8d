declare module 'cluster-key-slot' {
  /** Returns the slot of a key, 0 to 16383. */
  export default function slotOf(key: string | Buffer): number;
}
