const MIB = 1024 * 1024;

/** `text` repeated between `before` and `after` until the whole is just about 1 MiB long. */
function filled(before: string, text: string, after: string): Buffer {
  const count = Math.floor((MIB - before.length - after.length) / Buffer.byteLength(text, 'latin1'));
  return Buffer.from(before + text.repeat(count) + after, 'latin1');
}

function nested(before: string, open: string, inside: string, close: string): Buffer {
  const levels = Math.floor((MIB - before.length - 1 - inside.length) / (open.length + close.length));
  return Buffer.from(`${before}${open.repeat(levels)}${inside}${close.repeat(levels)}}`, 'latin1');
}

const IDS = '{"registry_ids":[1.0],"x":';

/** Bodies of 1 MiB whose cost could hang on something else than their length. Bytes are written as Latin-1. */
export const shapes: Readonly<Record<string, Buffer>> = {
  'one long string': filled(`${IDS}"`, 'x', '"}'),
  'small numbers': filled(`${IDS}[1`, ',1', ']}'),
  fractions: filled(`${IDS}[1`, ',1.5e-3', ']}'),
  'empty arrays': filled(`${IDS}[[]`, ',[]', ']}'),
  'empty objects': filled(`${IDS}[{}`, ',{}', ']}'),
  'objects of one member': filled(`${IDS}[1`, ',{"a":1}', ']}'),
  'deep arrays': nested(IDS, '[', '', ']'),
  'deep objects': nested(IDS, '{"a":', '1', '}'),
  'deep objects without a name': nested(IDS, '{"":', '1', '}'),
  'brackets that stay open': filled(IDS, '[', ''),
  'objects that stay open': filled(IDS, '{"":', ''),
  'members of one name': filled('{"registry_ids":[1.0]', ',"x":1', '}'),
  'members of many names': Buffer.from(
    `{"registry_ids":[1.0],${Array.from({ length: 90_000 }, (_, i) => `"k${i}":0`).join()}}`,
  ),
  'the ids again and again': filled('{"registry_ids":[1.0]', ',"registry_ids":[1.0]', '}'),
  'the ids again and again, their name escaped': filled(
    '{"registry_ids":[1.0]',
    ',"registry\\u005fids":[1]',
    '}',
  ),
  'a million ids': filled('{"registry_ids":[1.0', ',1', ']}'),
  strings: filled(`${IDS}["a"`, ',"a"', ']}'),
  escapes: filled(`${IDS}"`, '\\n', '"}'),
  'escaped letters': filled(`${IDS}"`, '\\u00e9', '"}'),
  'escaped surrogates': filled(`${IDS}"`, '\\ud83d\\ude00', '"}'),
  'surrogates alone': filled(`${IDS}"`, '\\ud83d', '"}'),
  'letters of two bytes': filled(`${IDS}"`, '\xc3\xa9', '"}'),
  'letters of two bytes among others': filled(`${IDS}"`, 'a\xc3\xa9', '"}'),
  'letters of four bytes': filled(`${IDS}"`, '\xf0\x9f\x98\x80', '"}'),
  'no UTF-8 at the end': filled(`${IDS}"`, '\xc3\xa9', '\xff"}'),
  NULs: filled(`${IDS}"`, '\0', '"}'),
  'one long number': filled(IDS, '1', '}'),
  'one long fraction': filled(`${IDS}1.`, '1', '}'),
  'an id of a million digits': filled('{"registry_ids":[1.0,', '1', ']}'),
  'an id of a million zeros': filled('{"registry_ids":[1.0,"', '0', '"]}'),
  'an id with a long fraction': filled('{"registry_ids":[1.0,1.', '0', ']}'),
  'an id with a long exponent': filled('{"registry_ids":[1.0,1e', '1', ']}'),
  blanks: filled('', ' ', '{"registry_ids":[1.0]}'),
  'line ends between tokens': filled('{"registry_ids":[1.0],"x":[1', '\n\r\t ,1', ']}'),
  'true, false and null': filled(`${IDS}[1`, ',true,false,null', ']}'),
  'an unfinished string': filled(`${IDS}"`, 'x', ''),
};
