import { registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';

// loaded before the service's own modules: resolves uWebSockets.js in another folder
const parentURL = pathToFileURL(`${process.env.TEST_UWS_FOLDER}/`).href;
registerHooks({
  resolve: (specifier, context, next) =>
    next(specifier, specifier === 'uWebSockets.js' ? { ...context, parentURL } : context),
});
