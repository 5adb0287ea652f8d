// Runs in the browser, in the head: the colours are set before anything is drawn.
(() => {
  const system = matchMedia('(prefers-color-scheme: dark)');
  // the class is the one that Swagger UI knows
  const apply = () => document.documentElement.classList.toggle('dark-mode', system.matches);
  system.addEventListener('change', apply);
  apply();

  addEventListener('DOMContentLoaded', () => {
    for (const place of document.querySelectorAll('[data-address]'))
      place.textContent = location.origin + document.body.dataset.base;
    for (const figure of document.querySelectorAll('figure.code')) addCopyButton(figure);
    followContents();
    showReference();
  });

  function addCopyButton(figure) {
    if (!navigator.clipboard) return;
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Copy';
    button.addEventListener('click', async () => {
      await navigator.clipboard.writeText(figure.querySelector('code').textContent);
      button.textContent = 'Copied';
      setTimeout(() => (button.textContent = 'Copy'), 1500);
    });
    figure.querySelector('figcaption').append(button);
  }

  function followContents() {
    const links = new Map(
      [...document.querySelectorAll('.toc a')].map((link) => [link.getAttribute('href').slice(1), link]),
    );
    const seen = new IntersectionObserver(
      (entries) => {
        for (const { isIntersecting, target } of entries) {
          if (!isIntersecting) continue;
          for (const link of links.values()) link.removeAttribute('aria-current');
          const link = links.get(target.id);
          link.setAttribute('aria-current', 'true');
          const list = link.closest('ol');
          list.scrollTo({ left: link.offsetLeft - list.clientWidth / 2 + link.offsetWidth / 2 });
        }
      },
      { rootMargin: '-20% 0px -75% 0px' },
    );
    for (const id of links.keys()) seen.observe(document.getElementById(id));
  }

  async function showReference() {
    const holder = document.getElementById('swagger');
    const base = document.body.dataset.base;
    const answer = await fetch(`${base}/openapi.json`).catch(() => undefined);
    if (!answer?.ok) {
      holder.textContent = 'The reference could not be loaded. Reload the page.';
      return;
    }
    const spec = await answer.json();
    // requests go where this page came from, whatever the address that others use
    spec.servers = [{ url: location.origin + base }];
    nameControls(holder);
    const ui = SwaggerUIBundle({
      spec,
      domNode: holder,
      layout: 'Reference',
      presets: [SwaggerUIBundle.presets.apis, referenceLayout],
      syntaxHighlight: { theme: 'obsidian' },
      tryItOutEnabled: true,
      docExpansion: 'list',
      defaultModelsExpandDepth: 0,
      defaultModelRendering: 'example',
      displayRequestDuration: true,
      validatorUrl: null,
    });
    const field = document.getElementById('key');
    const state = document.getElementById('key-state');
    let used = '';
    const use = async () => {
      const key = field.value.trim();
      if (key === used) return;
      used = key;
      if (key) ui.preauthorizeApiKey('apiKey', key);
      else ui.authActions.logout(['apiKey']);
      state.textContent = key ? 'Checking …' : '';
      const said = key && (await check(key));
      if (used === key) state.textContent = said;
    };
    const check = async (key) => {
      try {
        // a header holds no other characters
        const headers = { 'x-api-key': /^[!-~]+$/.test(key) ? key : 'invalid' };
        const { status } = await fetch(`${base}/hotels?limit=1`, { headers });
        if (status === 200) return 'In use';
        if (status === 401) return 'Not accepted: the key is mistyped, revoked or expired';
        if (status === 429) return 'In use. Its rate limit is used up for the moment';
        return `Not checked: the service responded with ${status}`;
      } catch {
        return 'Not checked: the service did not respond';
      }
    };
    document.getElementById('key-form').addEventListener('submit', (event) => {
      event.preventDefault();
      use();
    });
    field.addEventListener('change', use);
  }

  // the library's own layout has a second main landmark, and headings that this page has itself
  function referenceLayout({ React: { createElement } }) {
    const parts = ['SvgAssets', 'operations', 'Models'];
    const Reference = ({ getComponent }) =>
      createElement('div', { className: 'swagger-ui' }, ...parts.map((name) => createElement(getComponent(name, true))));
    return { components: { Reference } };
  }

  // the library draws controls without names, and code that scrolls but cannot be focused
  function nameControls(holder) {
    const names = {
      'select.examples-select-element': 'Example',
      'select.content-type': 'Media type',
      '.body-param__text': 'Request body',
      '[role=region]': 'Responses',
    };
    const complete = () => {
      for (const [selector, name] of Object.entries(names))
        for (const control of holder.querySelectorAll(`${selector}:not([aria-label])`)) {
          const text = (part) => control.closest('.opblock').querySelector(`.opblock-summary-${part}`).textContent;
          control.setAttribute('aria-label', `${name}: ${text('method')} ${text('path')}`);
        }
      for (const code of holder.querySelectorAll('pre:not([tabindex])')) code.tabIndex = 0;
    };
    new MutationObserver(complete).observe(holder, { childList: true, subtree: true });
  }
})();
