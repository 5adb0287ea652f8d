import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type Browser, chromium } from 'playwright-core';
import { pathOf } from '../support/programs.ts';
import { type Demo, measure } from './dashboard-data.ts';
import { drawDashboard } from './dashboard-page.ts';
import { ROOT } from './files.ts';

/**
 * Takes the pictures of docs/pictures: `npm run build:pictures`. One is the page /docs of the demo, as a reader sees it
 * first. The other is the Grafana dashboard, drawn without Grafana from its own queries to a Prometheus that scrapes
 * the demo. It takes two minutes.
 */
const [executablePath, prometheus] = await Promise.all([pathOf('chromium'), pathOf('prometheus')]);
if (!executablePath || !prometheus) throw new Error('chromium or prometheus is not installed');

const arguments_ = ['src/demo/main.ts', '--hotels', '1000', '--workers', '1'];
const process_ = spawn(process.execPath, arguments_, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
let browser: Browser | undefined;
try {
  const demo = await readyDemo(process_.stdout);
  const panels = await measure(demo, prometheus);
  const args = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  browser = await chromium.launch({ executablePath, args });
  const page = await browser.newPage({ viewport: { width: 1040, height: 640 }, colorScheme: 'light' });
  await page.goto(`${demo.url}/docs`);
  await page.waitForSelector('.opblock');
  await page.screenshot({ path: `${ROOT}docs/pictures/docs-page.png` });

  // a page of its own: the content security policy of /docs forbids styles in the text
  const second = await browser.newPage({ viewport: { width: 1200, height: 100 } });
  await second.setContent(drawDashboard(panels));
  await second.screenshot({ path: `${ROOT}docs/pictures/dashboard.png`, fullPage: true });
} finally {
  await browser?.close();
  process_.kill('SIGINT');
  await once(process_, 'exit');
}

/** Returns what the demo has printed about itself when it is ready. */
async function readyDemo(output: NodeJS.ReadableStream): Promise<Demo> {
  let text = '';
  for await (const chunk of output) {
    text += chunk;
    if (!text.includes('\nReady ')) continue;
    const [url, adminUrl] = text.match(/http:\/\/[\w.:]+/g)!;
    return {
      url: url!,
      adminUrl: adminUrl!,
      key: /hk_\w+/.exec(text)![0],
      sql: /^\S+\/sql /m.exec(text)![0].trim(),
    };
  }
  throw new Error('the demo has ended');
}
