import { expect, it } from 'vitest';
import { LruCache } from './lru-cache.ts';

it('evicts the least recently used values beyond its bytes, and keeps none that is larger', () => {
  const cache = new LruCache<string, string>(10, (value) => value.length);
  const kept = () => ['a', 'b', 'c'].filter((key) => cache.get(key));
  for (const key of ['a', 'b', 'a']) cache.put(key, 'xxxxx');
  expect(kept()).toEqual(['a', 'b']);
  cache.get('a');
  cache.put('c', 'xx');
  expect(kept()).toEqual(['a', 'c']);
  cache.drop('c');
  cache.put('b', 'xxxxx');
  expect(kept()).toEqual(['a', 'b']);
  cache.put('b', 'x'.repeat(11));
  expect(kept()).toEqual(['a']);
});
