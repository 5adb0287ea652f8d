import fc from 'fast-check';

/** Asserts that a property holds for any values of the arbitraries. */
export function forAll<Values extends [unknown, ...unknown[]]>(
  ...property: [
    ...arbitraries: { [K in keyof Values]: fc.Arbitrary<Values[K]> },
    // biome-ignore lint/suspicious/noConfusingVoidType: as in fast-check
    holds: (...values: Values) => boolean | void,
  ]
): void {
  fc.assert(fc.property<Values>(...property));
}
