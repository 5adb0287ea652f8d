/**
 * `text.charCodeAt(at)`, as a function. V8 looks the method up by the kind of string (flat, joined, sliced, interned and
 * more), and where five kinds have come along it does so for every character.
 */
export const charCodeAt: (text: string, at: number) => number = Function.prototype.call.bind(
  String.prototype.charCodeAt,
);
