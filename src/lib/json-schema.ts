/** Returns the JSON Schema of an object that has all these properties. */
export function objectOf<const Properties extends Record<string, object>>(properties: Properties) {
  return { type: 'object', required: Object.keys(properties), properties } as const;
}

interface Scalars {
  string: string;
  number: number;
  integer: number;
  boolean: boolean;
  null: null;
}

/** Type of the values that match a JSON Schema of these keywords. */
export type ValueOf<Schema> = Schema extends { anyOf: readonly (infer Other)[] }
  ? ValueOf<Other>
  : Schema extends { type: 'object'; properties: infer Properties }
    ? { -readonly [K in keyof Properties]: ValueOf<Properties[K]> }
    : Schema extends { type: 'array'; items: infer Item }
      ? ValueOf<Item>[]
      : Schema extends { type: keyof Scalars }
        ? Scalars[Schema['type']]
        : never;
