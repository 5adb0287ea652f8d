import { type Manifest, render } from './kustomize.ts';

/** Annotations that the controller itself reads; the others have the names of nginx's directives. */
const OF_THE_CONTROLLER = [
  ...['mergeable-ingress-type', 'keepalive', 'max-fails', 'redirect-to-https', 'server-tokens', 'hsts'],
];

const annotationsOf = ({ metadata }: Manifest) =>
  Object.fromEntries(
    Object.entries(metadata.annotations!).map(([name, value]) => [name.replace('nginx.org/', ''), value]),
  );

/**
 * Returns the http block of nginx that F5's controller generates from the Ingresses of production. The first contains
 * the host and the annotations that the others inherit.
 */
export async function ingressConfiguration(): Promise<(port: number, upstreams: number[]) => string> {
  const [master, ...minions] = (await render('production')).filter(({ kind }) => kind === 'Ingress');
  const inherited = annotationsOf(master!);
  const locations = minions.map((minion) => {
    const directives = Object.entries({ ...inherited, ...annotationsOf(minion) })
      .filter(([name]) => !OF_THE_CONTROLLER.includes(name))
      .map(([name, value]) => `${name.replaceAll('-', '_')} ${value};`);
    const [{ path, pathType }] = minion.spec.rules[0].http.paths;
    return `location ${pathType === 'Exact' ? '=' : ''} ${path} {
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://pods;
      ${directives.join('\n      ')}
    }`;
  });
  return (port, upstreams) => `
  upstream pods {
    ${upstreams.map((each) => `server 127.0.0.1:${each} max_fails=${inherited['max-fails']};`).join('\n    ')}
    keepalive ${inherited.keepalive};
  }
  server {
    listen 127.0.0.1:${port};
    ${locations.join('\n    ')}
  }`;
}
