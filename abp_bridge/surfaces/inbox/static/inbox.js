// The inbox without loading it again: follows what is open, and finds the way from the fixed
// address to the list. Everything works without it.

const KEY = 'abp-inbox';
const inbox = document.querySelector('[data-inbox]');
let leaving = false; // to another page: what breaks off then says nothing
window.addEventListener('beforeunload', () => {
  leaving = true;
});

if (inbox) {
  try {
    localStorage.setItem(KEY, inbox.dataset.inbox);
  } catch {
    /* it is asked for again */
  }
  const events = new EventSource(`${inbox.dataset.inbox}events`);
  events.onmessage = (event) => {
    sayOld(false);
    if (event.data !== inbox.dataset.version) refresh().catch(() => sayOld(true));
  };
  events.onerror = () => sayOld(true);
} else if (document.querySelector('[data-entrance]') && !document.querySelector('form')) {
  let home = null;
  try {
    home = localStorage.getItem(KEY);
  } catch {
    /* without storage its person has a bookmark */
  }
  if (home) location.replace(home);
}

function sayOld(isOld) {
  if (leaving) return;
  document.querySelector('[data-old]').hidden = !isOld;
}

async function refresh() {
  const response = await fetch(inbox.dataset.inbox);
  if (!response.ok) throw new Error(response.statusText);
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  await released;
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
