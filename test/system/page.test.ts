import { readFile } from 'node:fs/promises';
import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readExample } from '../../docs/api/build/guide.ts';
import { needs } from '../support/needs.ts';
import { pathOf } from '../support/programs.ts';
import { exampleRow } from '../support/rows.ts';
import { type Service, startService } from '../support/service.ts';

const OPERATIONS = [
  ...['Hotels-listHotels', 'Hotels-getHotel', 'Hotels-batchHotelsById', 'Channel-getHotelByChannelId'],
  ...['Channel-batchHotelsByChannelId', 'Registry-getHotelByRegistryId', 'Registry-batchHotelsByRegistryId'],
];
/** Complaint of the browser itself of every 401. */
const UNAUTHORIZED =
  'error: Failed to load resource: the server responded with a status of 401 (Unauthorized)';
const DESKTOP = { viewport: { width: 1280, height: 800 } };
const PHONE = { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true };
/** Operations that are open while axe looks at the page. */
const AUDITED = ['Hotels-listHotels', 'Channel-batchHotelsByChannelId'];
type Scheme = 'light' | 'dark';
/** Screens, the schemes that the browser has there one after the other, and the operations that are also sent there. */
const SCREENS: [name: string, options: BrowserContextOptions, schemes: Scheme[], more: string[]][] = [
  ['a desktop', DESKTOP, ['light', 'dark'], OPERATIONS.filter((id) => !AUDITED.includes(id))],
  ['a phone', PHONE, ['dark', 'light'], ['Hotels-getHotel']],
];
const NOT_ACCEPTED = 'Not accepted: the key is mistyped, revoked or expired';
const REJECTED = ['hk_mistyped', 'not ä key'];

interface AxeRule {
  id: string;
  nodes: { target: string[]; html: string }[];
}
type Audit = Record<'violations' | 'passes', AxeRule[]> & { brightness: number };

await needs('chromium');
const program = await pathOf('chromium');

describe('the docs page', () => {
  let service: Service;
  let browser: Browser;

  beforeAll(async () => {
    service = await startService({ hotels: [exampleRow()], env: { BASE_PATH: '/data/v1' } });
    browser = await chromium.launch({
      executablePath: program!,
      // no name is resolved, so resources from elsewhere would be missing
      args: [
        '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1',
        ...(process.getuid?.() === 0 ? ['--no-sandbox'] : []),
      ],
    });
  });
  afterAll(() => browser?.close());

  /** Opens the page, runs `work`, and fails for any complaint of the browser and any request to another origin. */
  async function open(
    options: BrowserContextOptions,
    work: (page: Page) => Promise<void>,
    expectedComplaints: string[] = [],
  ): Promise<void> {
    const context = await browser.newContext({ reducedMotion: 'reduce', ...options });
    const page = await context.newPage();
    const complaints: string[] = [];
    const requested: string[] = [];
    page.on('console', (message) => complaints.push(`${message.type()}: ${message.text()}`));
    page.on('pageerror', (error) => complaints.push(String(error)));
    page.on('requestfailed', (request) => complaints.push(`failed: ${request.url()}`));
    context.on('request', (request) => requested.push(request.url()));
    try {
      await page.goto(`${service.url}/data/v1/docs`);
      await page.waitForSelector('.opblock');
      await work(page);
    } finally {
      await context.close();
    }
    expect(complaints).toEqual(expectedComplaints);
    const elsewhere = requested.filter(
      (url) => !url.startsWith(`${service.url}/data/v1/`) && !url.startsWith('data:'),
    );
    expect(elsewhere).toEqual([]);
    expect(requested.length).toBeGreaterThan(4);
  }

  /** Enters a key; resolves when its state is shown. */
  async function enter(page: Page, key: string, state: string): Promise<void> {
    await page.fill('#key', key);
    await page.click('#key-form button');
    await page.getByText(state, { exact: true }).waitFor();
  }

  it.each(SCREENS)(
    'fits %s, shows all operations, sends them with a key, and has no violation of axe with open ones, light and dark',
    async (_, options, schemes, more) => {
      const axe = await readFile(new URL(import.meta.resolve('axe-core/axe.min.js')), 'utf8');
      await open({ ...options, colorScheme: schemes[0]! }, async (page) => {
        const all = [...OPERATIONS, 'Mirror-listChanges', 'Key-getKey'];
        for (const id of all) expect(await page.locator(`#operations-${id}`).isVisible()).toBe(true);
        expect(await page.locator('.opblock').count()).toBe(all.length);
        expect(await page.evaluate(OVERFLOW)).toBeLessThanOrEqual(0);

        await enter(page, service.fullKey, 'In use');
        await sends(page, AUDITED);
        await page.click('.models-control');
        await page.evaluate(axe);
        for (const colorScheme of schemes) {
          await page.emulateMedia({ colorScheme });
          const isDark = colorScheme === 'dark';
          const root = page.locator(isDark ? 'html.dark-mode' : 'html:not(.dark-mode)');
          await root.waitFor({ state: 'attached' });
          const { brightness, violations, passes } = await page.evaluate(AUDIT);
          if (isDark) expect(brightness).toBeLessThan(60);
          else expect(brightness).toBeGreaterThan(200);
          expect(
            violations.map(({ id, nodes }) => [
              `${id}, ${colorScheme}`,
              ...nodes.map(({ target, html }) => [target.join(' '), html]),
            ]),
          ).toEqual([]);
          expect(passes.map(({ id }) => id)).toEqual(
            expect.arrayContaining(['color-contrast', 'select-name']),
          );
        }
        await sends(page, more);
      });
    },
  );

  it('leads from the key to the clients, with the examples of their files, and shows what a missing or rejected key causes', async () => {
    const work = async (page: Page) => {
      const titles = await page.locator('#content h2').allTextContents();
      expect(titles.slice(0, 15)).toEqual([
        ...['Get a key', 'First call', 'Fields', 'Batches', 'Paging', 'Mirror everything'],
        ...['Conditional requests', 'Compression', 'Errors', 'Limits', 'Timeouts', 'Retries', 'Instances'],
        ...['Versions', 'Clients'],
      ]);
      const shown = await page.locator('figure.code code').allTextContents();
      for (const file of ['client.ts', 'usage.ts', 'sqlite-copy.ts', 'client.py', 'sqlite_copy.py'])
        expect(shown).toContain(readExample(file).trim());
      const script = readExample('curl.sh')
        .split(/^## .*\n/m)
        .slice(1);
      for (const section of script) expect(shown).toContain(section.trim());
      expect(shown[0]).toContain(`export HOTEL_API_URL=${service.url}/data/v1\n`);
      for (const href of await page.locator('.toc a').evaluateAll(HREFS))
        expect(await page.locator(href).count()).toBe(1);

      const { status, body } = await execute(page, 'Hotels-getHotel');
      expect(status).toBe('401');
      expect(body).toContain('"error": "Unauthorized"');
      for (const key of REJECTED) await enter(page, key, NOT_ACCEPTED);
    };
    await open({}, work, [UNAUTHORIZED, ...REJECTED.map(() => UNAUTHORIZED)]);
  });

  /** Sends operations by their forms, and expects the hotel of the examples in each response. */
  async function sends(page: Page, operations: readonly string[]): Promise<void> {
    for (const id of operations) {
      const { status, body } = await execute(page, id);
      expect([id, status]).toEqual([id, '200']);
      expect(body).toContain('"id": "htl_sliji9ej"');
      expect(body).toContain('"registry_id": 500011');
    }
  }

  async function execute(page: Page, id: string): Promise<{ status: string; body: string }> {
    const operation = page.locator(`#operations-${id}`);
    await operation.locator('.opblock-summary-control').click();
    await operation.locator('.execute').click();
    const live = operation.locator('.live-responses-table .response');
    await live.locator('.microlight').first().waitFor();
    return {
      status: (await live.locator('.response-col_status').innerText()).trim(),
      body: await live.locator('.microlight').first().innerText(),
    };
  }
});

// evaluated in the browser
const AUDIT = `(async () => {
  // colours change in transitions
  while (document.getAnimations().length > 0)
    await Promise.allSettled(document.getAnimations().map(({ finished }) => finished));
  const [red, green, blue] = getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number);
  return { ...(await axe.run({ resultTypes: ['violations'] })), brightness: (red + green + blue) / 3 };
})()` as unknown as () => Promise<Audit>;
const OVERFLOW = 'document.documentElement.scrollWidth - window.innerWidth' as unknown as () => number;
const HREFS = ((links: { getAttribute(name: string): string }[]) =>
  links.map((link) => link.getAttribute('href'))) as unknown as () => string[];
