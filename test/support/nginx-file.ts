/** Line that nginx prints when its worker has started. */
export const NGINX_READY = /start worker process \d/;

/** Returns the command that runs nginx in a folder with `nginx.conf`. */
export const nginxCommand = (program: string, folder: string): [file: string, ...args: string[]] => [
  program,
  ...['-p', folder, '-c', `${folder}/nginx.conf`, '-e', 'stderr'],
];

/** Returns a configuration of one worker, with this content of the http block; `main` precedes all blocks. */
export const nginxFile = (folder: string, http: string, main = ''): string => `
daemon off;
worker_processes 1;
pid ${folder}/nginx.pid;
error_log stderr notice;
${main}
events { worker_connections 4096; }
http {
  access_log off;
  ${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((name) => `${name}_temp_path ${folder}/${name};`).join('\n  ')}
  ${http}
}`;
