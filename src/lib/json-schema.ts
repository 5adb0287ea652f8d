/** Returns the JSON Schema of an object that has all these properties. */
export function objectOf<const Properties extends Record<string, object>>(properties: Properties) {
  // typebox derives the required fields from the elements of a tuple only
  const required = Object.keys(properties) as [keyof Properties & string];
  return { type: 'object', required, properties } as const;
}
