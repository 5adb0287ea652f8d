/**
 * Loaded before the service by `--import`. It removes the metrics, the request ids and the log call of each request
 * from the source when it is loaded, so that their cost can be measured without a switch in the service. Throws if the
 * source no longer contains one of them.
 */
import { registerHooks } from 'node:module';

/** Patterns to remove, with their replacements, by file. */
const CUTS = {
  'src/http/request-pipeline.ts': [
    [/exchange\.counter\.count\(/g, 'void ('],
    [/this\.#parts\.accessLog\.finished\(/g, 'void ('],
  ],
  'src/http/received-request.ts': [
    // as long as a generated id
    [/requestIdOf\(this\.headers\.requestId\)/g, "'the-same-id-always'"],
  ],
  'src/cache/local-cache.ts': [[/this\.#counts\.\w+(\+\+| \+= [\w.]+);/g, ';']],
  'src/auth/api-key-cache.ts': [[/this\.#counts\.local\.\w+\+\+;/g, ';']],
};

registerHooks({
  load(url, context, nextLoad) {
    const loaded = nextLoad(url, context);
    const file = Object.keys(CUTS).find((name) => url.endsWith(name));
    if (!file) return loaded;
    let source = loaded.source.toString();
    for (const [cut, instead] of CUTS[file]) {
      if (source.search(cut) === -1) throw new Error(`${file} no longer holds ${cut.source}`);
      source = source.replaceAll(cut, instead);
    }
    return { ...loaded, source };
  },
});
