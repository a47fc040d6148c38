// The inbox without loading it again: follows what is open, and finds the way from the fixed
// address to the list. Everything works without it.

const KEY = 'abp-inbox';
const inbox = document.querySelector('[data-inbox]');

if (inbox) {
  try {
    localStorage.setItem(KEY, inbox.dataset.inbox);
  } catch {
    /* it is asked for again */
  }
  new EventSource(`${inbox.dataset.inbox}events`).onmessage = (event) => {
    if (event.data !== inbox.dataset.version) refresh();
  };
} else if (document.querySelector('[data-entrance]') && !document.querySelector('form')) {
  let home = null;
  try {
    home = localStorage.getItem(KEY);
  } catch {
    /* without storage its person has a bookmark */
  }
  if (home) location.replace(home);
}

async function refresh() {
  const response = await fetch(inbox.dataset.inbox);
  if (!response.ok) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const now = page.querySelector('[data-inbox]');
  const focused = document.activeElement?.getAttribute('href');
  inbox.dataset.version = now.dataset.version;
  inbox.replaceChildren(...now.childNodes);
  document.title = page.title;
  if (focused) inbox.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
  document
    .querySelector('[data-past]')
    .replaceChildren(...page.querySelector('[data-past]').childNodes);
}
