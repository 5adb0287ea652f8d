import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chromium } from 'playwright-core';
import { pathOf } from '../support/programs.ts';
import { ROOT } from './files.ts';

/**
 * Takes the picture of the page /docs that README.md shows: `npm run build:pictures`. The page is that of the demo, as a
 * reader sees it first.
 */
const executablePath = await pathOf('chromium');
if (!executablePath) throw new Error('chromium is not installed');

const arguments_ = ['src/demo/main.ts', '--hotels', '1000', '--workers', '1'];
const demo = spawn(process.execPath, arguments_, { cwd: ROOT, stdio: ['ignore', 'pipe', 'inherit'] });
try {
  const url = await addressOf(demo.stdout);
  const browser = await chromium.launch({
    executablePath,
    args: process.getuid?.() === 0 ? ['--no-sandbox'] : [],
  });
  const page = await browser.newPage({ viewport: { width: 1040, height: 640 }, colorScheme: 'light' });
  await page.goto(url);
  await page.waitForSelector('.opblock');
  await page.screenshot({ path: `${ROOT}docs/pictures/docs-page.png` });
  await browser.close();
} finally {
  demo.kill('SIGINT');
  await once(demo, 'exit');
}

/** Returns the address of the page when the demo has printed that it is ready. */
async function addressOf(output: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of output) {
    text += chunk;
    if (text.includes('\nReady ')) return `${/http:\/\/[\w.:]+/.exec(text)![0]}/docs`;
  }
  throw new Error('the demo has ended');
}
