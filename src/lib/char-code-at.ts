/**
 * Returns `text.charCodeAt(at)`. V8 dispatches the method by the kind of string (flat, joined, sliced, interned and
 * more). At a call site that has seen five kinds it does so for every character.
 */
export const charCodeAt: (text: string, at: number) => number = Function.prototype.call.bind(
  String.prototype.charCodeAt,
);
