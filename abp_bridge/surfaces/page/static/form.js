// Comforts only: the page works without this. It sends forms without losing what is in them, keeps
// drafts in the tab (never of a secret or a file), says when a question has ended, when its time
// runs out and when the bridge has gone, keeps the inbox fresh, searches long lists, checks what
// can be checked while it is filled in, and takes files that are dropped.
'use strict';

const SENTENCES = JSON.parse(document.body.dataset.words);
const SOON = 120; // seconds before the end in which it is warned of, or a third of the whole
const TRIES = 3; // times that the bridge is asked whether it is there, before it is called gone
const PAUSE = 700; // milliseconds between them
const LATER_TRIES = 120; // and while it is gone: a tunnel may come back
const LATER_PAUSE = 5000;

const form = document.querySelector('[data-open]');
const inbox = document.querySelector('[data-inbox]');
let notes = {}; // what is said above the form, by its sentence

function words(key, values = {}) {
  return SENTENCES[key].replace(/\{(\w+)\}/g, (_, name) => values[name]);
}

function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const pause = (milliseconds) =>
  new Promise((done) => {
    setTimeout(done, milliseconds);
  });

// --- who is at the other end ---------------------------------------------------------------------

// A bridge that ends frees its port for anybody on this machine, who would be this page's origin.
// So before anything is sent or loaded the other end shows that it has the key that came with the
// page, and what is kept in the tab can be read with that key alone.
const LOCK = 'AES-GCM';
const keys = inbox && deriveKeys(unhex(inbox.dataset.key));
const bytes = (text) => new TextEncoder().encode(text);

function unhex(text) {
  return Uint8Array.from(text.match(/[0-9a-f]{2}/g) ?? [], (each) => parseInt(each, 16));
}

async function deriveKeys(secret) {
  const proving = await crypto.subtle.importKey(
    'raw',
    secret,
    { name: 'HMAC', hash: 'SHA-256' },
    false,
    ['sign', 'verify'],
  );
  const drafts = await crypto.subtle.sign('HMAC', proving, bytes('drafts'));
  return {
    proving,
    drafts: await crypto.subtle.importKey('raw', drafts, LOCK, false, ['encrypt', 'decrypt']),
  };
}

async function lives() {
  if (!keys) return false;
  const nonce = crypto.randomUUID();
  const address = `${inbox.dataset.inbox.replace(/events$/, '')}proof/${nonce}`;
  try {
    const response = await fetch(address, {
      credentials: 'omit',
      redirect: 'error',
      signal: AbortSignal.timeout(4000),
    });
    const proof = unhex(await response.text());
    return await crypto.subtle.verify('HMAC', (await keys).proving, proof, bytes(`proof ${nonce}`));
  } catch {
    return false;
  }
}

async function livesAfterAll() {
  for (let tries = 0; tries < TRIES; tries += 1) {
    if (await lives()) return true;
    await pause(PAUSE);
  }
  return false;
}

async function seal(text) {
  const iv = crypto.getRandomValues(new Uint8Array(12));
  const sealed = await crypto.subtle.encrypt({ name: LOCK, iv }, (await keys).drafts, bytes(text));
  return JSON.stringify([[...iv], [...new Uint8Array(sealed)]]);
}

async function unseal(text) {
  const [iv, sealed] = JSON.parse(text).map((each) => new Uint8Array(each));
  return new TextDecoder().decode(
    await crypto.subtle.decrypt({ name: LOCK, iv }, (await keys).drafts, sealed),
  );
}

// --- what is typed: read, kept in the tab, shown to be copied ------------------------------------

const SECRET = '[type=password], [type=file], [type=hidden], [name=""]';
// "action" names the buttons
const target = form && new URL(form.getAttribute('action'), location.href).href;
const kept = `abp ${target}`;

function controls() {
  return form
    ? [...form.elements].filter(
        (each) =>
          each.name &&
          each.matches('input, textarea') &&
          !each.matches(SECRET) &&
          !each.closest('[data-secret]'),
      )
    : [];
}

const ticks = (each) => each.type === 'radio' || each.type === 'checkbox';

function read() {
  const values = {};
  for (const each of controls()) {
    values[each.name] ??= [];
    if (!ticks(each)) values[each.name].push(each.value);
    else if (each.checked) values[each.name].push(each.value);
  }
  return values;
}

// In the words of the page, for somebody who takes them elsewhere.
function typed() {
  const said = [];
  for (const each of controls()) {
    const label = each.labels?.[0]?.textContent.trim() ?? '';
    const group = each.closest('fieldset')?.querySelector('legend')?.textContent.trim();
    if (ticks(each)) {
      if (each.checked) said.push(group ? `${group}: ${label}` : label);
    } else if (each.value)
      said.push(
        form.querySelectorAll('.field').length > 1 ? `${label}: ${each.value}` : each.value,
      );
  }
  return said.join('\n');
}

const before = form && JSON.stringify(read()); // as the server sent it
const rows = () =>
  JSON.stringify(
    [...form.querySelectorAll('[type=hidden][name$="-rows"]')].map((each) => each.value),
  );

let edits = 0; // what is sealed last is kept

async function keep() {
  if (JSON.stringify(read()) === before) return forget();
  edits += 1;
  const edit = edits;
  try {
    const sealed = await seal(JSON.stringify({ values: read(), rows: rows(), text: typed() }));
    if (edit === edits) sessionStorage.setItem(kept, sealed);
  } catch {
    /* a full or forbidden store: then nothing is kept */
  }
}

function forget() {
  edits += 1;
  try {
    sessionStorage.removeItem(kept);
  } catch {
    /* likewise */
  }
}

async function stored(key) {
  try {
    return JSON.parse(await unseal(sessionStorage.getItem(key)));
  } catch {
    return null;
  }
}

// A form that was sent is kept by the server; what was typed since is only here.
async function restore() {
  const draft = await stored(kept);
  if (!draft || draft.rows !== rows() || JSON.stringify(read()) !== before) return;
  for (const each of controls()) {
    const values = draft.values[each.name];
    if (!values) continue;
    if (ticks(each)) each.checked = values.includes(each.value);
    else if (values.length) {
      const isWide = values[0].includes('\n') && each.matches('input[type=text]');
      (isWide ? widen(each) : each).value = values[0];
    }
  }
  if (JSON.stringify(read()) !== before) announce('script.restored', { quiet: true });
}

if (form && !target.includes('/check/')) {
  restore();
  form.addEventListener('input', keep);
  form.addEventListener('change', keep);
}

// --- what is said above the form -----------------------------------------------------------------

function announce(key, { quiet = false, copy = false, text = words(key), button } = {}) {
  notes[key]?.remove();
  const note = make(
    'div',
    { className: quiet ? 'live' : 'live bad' },
    make('p', { textContent: text }),
  );
  note.setAttribute('role', quiet ? 'status' : 'alert');
  if (button) note.append(button);
  if (copy) note.append(...copied(typed()));
  notes[key] = note;
  (form ?? document.querySelector('main').firstElementChild).before(note);
  return note;
}

function unsay(...keys) {
  for (const key of keys) {
    notes[key]?.remove();
    delete notes[key];
  }
}

// What was typed, to be read and copied: a field of its own, and a button.
function copied(text) {
  if (!text) return [];
  const area = make('textarea', {
    readOnly: true,
    value: text,
    rows: Math.min(8, text.split('\n').length + 1),
    dir: 'auto',
  });
  area.setAttribute('aria-label', words('script.typed'));
  const said = make('span', { className: 'hint' });
  said.setAttribute('role', 'status');
  const button = make('button', { type: 'button', textContent: words('script.copy') });
  button.addEventListener('click', async () => {
    area.select();
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      document.execCommand('copy');
    }
    said.textContent = words('script.copied');
  });
  return [area, button, said];
}

// --- whether the bridge is there -----------------------------------------------------------------

let gone = false;

async function sayGone(key) {
  if (gone || !form?.isConnected) return;
  gone = true;
  announce(key, { copy: true });
  document.title = words('title.closed', { title: document.title });
  for (const each of form.querySelectorAll('button')) each.disabled = true;
  for (let tries = 0; tries < LATER_TRIES; tries += 1) {
    await pause(LATER_PAUSE);
    if (!(await lives())) continue;
    location.reload(); // what was typed is kept
    return;
  }
}

// Streams are closed while a tab is hidden: a browser has few connections to one server, and many
// tabs may be open.
function listen(address, listeners) {
  let events;
  let stopped = false;
  let following = 0;
  const follow = async () => {
    following += 1;
    const turn = following;
    events?.close();
    events = undefined;
    if (stopped || document.hidden) return;
    if (!(await livesAfterAll())) {
      if (turn === following && !stopped && !leaving) sayGone('script.gone');
      return;
    }
    if (turn !== following || stopped) return;
    events = new EventSource(address);
    for (const [name, heard] of Object.entries(listeners)) events.addEventListener(name, heard);
    events.addEventListener(
      'error',
      async () => {
        events?.close();
        events = undefined;
        if (leaving) return;
        await pause(PAUSE);
        follow();
      },
      { once: true },
    );
  };
  document.addEventListener('visibilitychange', follow);
  follow();
  return () => {
    stopped = true;
    document.removeEventListener('visibilitychange', follow);
    events?.close();
  };
}

let leaving = false; // to another page: what breaks off then says nothing
window.addEventListener('pagehide', () => {
  leaving = true;
});
window.addEventListener('beforeunload', () => {
  leaving = true;
  setTimeout(() => {
    leaving = false;
  }, 3000); // where nothing came of it
});
window.addEventListener('pageshow', () => {
  leaving = false;
});

// --- sending -------------------------------------------------------------------------------------

const LEAVES = ['decline', 'cancel'];
let sending = false;

async function send(event) {
  event.preventDefault();
  if (sending || gone) return;
  sending = true;
  unsay('script.not_sent');
  const button = event.submitter;
  const data = filledIn(button);
  const body = form.enctype.startsWith('multipart') ? data : encoded(data);
  const said = announce('script.sending', { quiet: true });
  said.hidden = true;
  const slow = setTimeout(() => {
    said.hidden = false;
  }, 400);
  try {
    if (!(await livesAfterAll())) {
      sayGone('script.gone');
      return;
    }
    const response = await fetch(target, {
      method: 'POST',
      body,
      headers: { Accept: 'application/json' },
    });
    const answer = await response.json();
    if (!response.ok) throw new TypeError(answer.problem, { cause: response });
    forget();
    go(answer.to);
  } catch (problem) {
    sending = false;
    if (problem.cause?.status === 409)
      announce('script.not_sent', { text: problem.message, copy: true });
    else if (problem.cause)
      announce('script.not_sent', { text: `${words('script.not_sent')} ${problem.message}` });
    else if (await livesAfterAll()) announce('script.not_sent');
    else
      sayGone(
        button?.value === 'more' || button?.value === 'later' ? 'script.gone' : 'script.unsure',
      );
  } finally {
    clearTimeout(slow);
    unsay('script.sending');
  }
}

// What is sent: nothing that is filled in where a question is left, and no file that is too large
// where what is filled in need not be right yet.
function filledIn(button) {
  const data = new FormData(form, button);
  for (const [name, value] of [...data]) {
    const leaves = LEAVES.includes(button?.value) && !['guard', 'action'].includes(name);
    const most = form.elements[name]?.closest?.('[data-drop]')?.dataset.drop;
    const isLarge = button?.formNoValidate && value instanceof File && value.size > Number(most);
    if (leaves || isLarge) data.delete(name);
  }
  return data;
}

// Line breaks as a browser itself sends them.
function encoded(data) {
  return new URLSearchParams(
    [...data].map(([name, value]) => [name, value.replace(/\r?\n/g, '\r\n')]),
  );
}

function go(address) {
  const there = new URL(address, location.href);
  if (there.href.split('#')[0] === location.href.split('#')[0]) {
    if (there.hash) location.hash = there.hash;
    location.reload();
  } else location.assign(there);
}

if (form) {
  form.addEventListener('submit', send);
  window.addEventListener('pageshow', () => {
    sending = false;
  });
  form.addEventListener('keydown', (event) => {
    const sends = form.querySelector('.buttons button[value=send]');
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && sends) {
      event.preventDefault();
      form.requestSubmit(sends);
    }
  });
}

// --- how it ends ---------------------------------------------------------------------------------

if (form) {
  const stop = listen(form.dataset.open, {
    message: refresh,
    time: (event) => {
      moveEnd(Number(event.data));
    },
    ended: (event) => {
      stop();
      if (sending) return;
      say(JSON.parse(event.data));
      listen(inbox.dataset.inbox, { message: refresh });
    },
  });
}

function say(ended) {
  const text = ended.sent ? '' : typed();
  for (const over of document.querySelectorAll('.when, .problems, .warning, .live')) over.remove();
  notes = {};
  const note = make(
    'div',
    { className: 'live bad' },
    make('h1', { className: 'long', textContent: ended.words }),
    ...copied(text),
  );
  note.setAttribute('role', 'alert');
  form.replaceWith(note);
  forget();
  document.title = words('title.closed', { title: document.title });
}

// The same page, loaded again when it is over: what was typed and not sent is still in the tab.
const over = document.querySelector('[data-over]');
if (over) showUnsent();

async function showUnsent() {
  const key = `abp ${location.origin}${location.pathname}`;
  const draft = over.dataset.over === 'sent' ? null : await stored(key);
  try {
    sessionStorage.removeItem(key);
  } catch {
    /* none is kept then */
  }
  if (draft?.text)
    over.after(
      make(
        'div',
        { className: 'live' },
        make('p', { textContent: words('script.typed') }),
        ...copied(draft.text),
      ),
    );
}

// What was seen here is cancelled where no tab is left, and none comes back in a while.
if (inbox) {
  const home = inbox.dataset.inbox.replace(/events$/, '');
  const tab = crypto.randomUUID();
  for (const [event, word] of [
    ['pageshow', 'here'],
    ['pagehide', 'left'],
  ]) {
    window.addEventListener(event, () => {
      if (!gone) navigator.sendBeacon(`${home}${word}/${tab}`);
    });
  }
}

if (inbox && !form) listen(inbox.dataset.inbox, { message: refresh });

// What is open is another now. Who has nothing else in hand gets to the next question with Enter.
async function refresh(event) {
  if (event.data === inbox.dataset.version || !(await lives())) return;
  let response;
  try {
    response = await fetch(location.href);
  } catch {
    return;
  }
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  await released;
  const focused = document.activeElement?.getAttribute('href');
  const now = fresh.querySelector('[data-inbox]');
  inbox.dataset.version = now.dataset.version;
  inbox.replaceChildren(...now.childNodes);
  if (!form?.isConnected) document.title = fresh.title;
  const next = focused ? inbox.querySelector(`[href="${CSS.escape(focused)}"]`) : null;
  if (next) next.focus();
  else if (!form?.isConnected && document.activeElement === document.body)
    inbox.querySelector('a')?.focus();
  count();
}

// --- time ----------------------------------------------------------------------------------------

const clock = document.querySelector('.when [data-ends]');
const whole = clock ? clock.dataset.ends - clock.dataset.asked : 0;

function left(time) {
  return Math.max(0, Math.round(time.dataset.ends - Date.now() / 1000));
}

function drawn(seconds) {
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')}`;
}

function moveEnd(ends) {
  if (!clock || Number(clock.dataset.ends) === ends) return;
  clock.dataset.ends = ends;
  clock.dataset.said = new Date(ends * 1000).toTimeString().slice(0, 5);
  unsay('time.soon');
  count();
}

function count() {
  for (const time of document.querySelectorAll('[data-ends]')) {
    time.dataset.said ??= time.textContent;
    time.textContent = `${time.dataset.said} ${words('time.left', { clock: drawn(left(time)) })}`;
  }
  if (clock?.isConnected && form?.isConnected && left(clock) <= Math.min(SOON, whole / 3) && !gone)
    warn();
}

// Once, with a button where more can be had: what counts down would be read out every second.
function warn() {
  const more = form.querySelector('button[value=more]');
  if (notes['time.soon']) return;
  let button;
  if (more) {
    button = make('button', { type: 'button', textContent: words('time.more') });
    button.addEventListener('click', () => {
      extend(more);
    });
  }
  announce('time.soon', { text: words('time.soon', { clock: drawn(left(clock)) }), button });
}

// Without leaving the page: the new end comes by the stream.
async function extend(more) {
  const body = new URLSearchParams({ guard: form.elements.guard.value, action: more.value });
  unsay('script.not_sent');
  if (!(await livesAfterAll())) {
    sayGone('script.gone');
    return;
  }
  try {
    const response = await fetch(target, {
      method: 'POST',
      body,
      headers: { Accept: 'application/json' },
    });
    if (response.ok) unsay('time.soon');
    else
      announce('script.not_sent', {
        text: `${words('script.not_sent')} ${(await response.json()).problem}`,
      });
  } catch {
    if (await livesAfterAll()) announce('script.not_sent');
    else sayGone('script.gone');
  }
}

form?.querySelector('button[value=more]')?.addEventListener('click', (event) => {
  event.preventDefault();
  extend(event.currentTarget);
});

count();
setInterval(count, 1000);

// --- fields --------------------------------------------------------------------------------------

for (const options of document.querySelectorAll('[data-search]')) {
  const search = make('input', {
    type: 'search',
    placeholder: words('script.search'),
    autocomplete: 'off',
    dir: 'auto',
  });
  search.setAttribute('aria-label', words('script.search_label'));
  const found = make('p', { className: 'hint' });
  found.setAttribute('role', 'status');
  const all = [...options.children].map((option) => [option, option.textContent.toLowerCase()]);
  search.addEventListener('input', () => {
    const wanted = search.value.toLowerCase();
    let shown = 0;
    for (const [option, text] of all) {
      option.hidden = !text.includes(wanted);
      if (!option.hidden) shown += 1;
    }
    found.textContent = wanted ? words('script.found', { shown, count: all.length }) : '';
  });
  search.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' && !event.ctrlKey) event.preventDefault();
  });
  options.before(search, found);
}

for (const hint of document.querySelectorAll('[data-count]')) {
  const boxes = [...hint.parentElement.querySelectorAll('.options input')];
  const least = Number(hint.dataset.least);
  const most = Number(hint.dataset.most ?? Infinity);
  const said = hint.textContent;
  const check = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    hint.textContent = `${said} ${words('script.chosen', { count: chosen })}`;
    const none = chosen === 0 && 'optional' in hint.dataset;
    boxes[0]?.setCustomValidity(!none && (chosen < least || chosen > most) ? said : '');
  };
  hint.parentElement.addEventListener('change', check);
  check();
}

// Characters as a schema counts them.
for (const field of document.querySelectorAll('[data-least], [data-most]')) {
  if (!field.matches('input, textarea')) continue;
  const { id } = field;
  const least = Number(field.dataset.least ?? 0);
  const most = Number(field.dataset.most ?? Infinity);
  const hint = document.getElementById(`${id}-hint`);
  const said = make('p', { className: 'hint count' });
  said.setAttribute('role', 'status');
  (field.closest('.secret') ?? field).after(said);
  const check = () => {
    const field = document.getElementById(id); // it may have got several lines since
    const length = [...field.value].length;
    const over = length - most;
    said.classList.toggle('over', over > 0);
    if (over > 0) said.textContent = words('script.over', { count: over });
    else if (length && length < least)
      said.textContent = words('script.under', { count: least - length });
    else if (length && most < Infinity) said.textContent = words('script.left', { count: -over });
    else said.textContent = '';
    const wrong = over > 0 || (length > 0 && length < least);
    field.setCustomValidity(wrong ? `${hint?.textContent ?? ''} ${said.textContent}`.trim() : '');
  };
  document.addEventListener('input', (event) => {
    if (event.target.id === id) check();
  });
  check();
}

// One line holds no line breaks, and a browser drops them without a word.
for (const field of document.querySelectorAll('input[type=text], input[data-secret]'))
  field.addEventListener('paste', (event) => {
    const text = event.clipboardData.getData('text/plain').replace(/\r\n?/g, '\n');
    if (!/\n[^]*\S/.test(text)) return; // one at the end alone was only copied with it
    event.preventDefault();
    const { value, selectionStart: from, selectionEnd: to } = field;
    const area = widen(field);
    area.value = value.slice(0, from) + text + value.slice(to);
    area.focus();
    area.setSelectionRange(from + text.length, from + text.length);
    area.dispatchEvent(new Event('input', { bubbles: true }));
  });

// The same field with several lines.
function widen(field) {
  const area = make('textarea', { rows: 5 });
  for (const { name, value } of field.attributes)
    if (name !== 'type' && name !== 'value') area.setAttribute(name, value);
  area.classList.toggle('hidden-text', field.type === 'password');
  field.replaceWith(area);
  return area;
}

for (const field of document.querySelectorAll('input[data-secret]')) {
  const { id } = field;
  const button = make('button', { type: 'button', textContent: words('script.show') });
  button.setAttribute(
    'aria-describedby',
    document.getElementById(`${field.id}-label`) ? `${field.id}-label` : 'asked',
  );
  button.setAttribute('aria-pressed', 'false');
  const row = make('div', { className: 'secret' });
  field.replaceWith(row);
  row.append(field, button);
  if (field.autofocus && !document.querySelector('.problems')) field.focus();
  button.addEventListener('click', () => {
    const field = document.getElementById(id);
    const shows = field.type === 'password' || field.classList.contains('hidden-text');
    if (field.matches('textarea')) field.classList.toggle('hidden-text', !shows);
    else field.type = shows ? 'text' : 'password';
    button.textContent = words(shows ? 'script.hide' : 'script.show');
    button.setAttribute('aria-pressed', String(shows));
  });
}

for (const area of document.querySelectorAll('[data-json]')) {
  area.addEventListener('input', () => {
    let problem = '';
    try {
      if (area.value.trim()) JSON.parse(area.value);
    } catch (error) {
      problem = words('script.json', { problem: error.message });
    }
    area.setCustomValidity(problem);
  });
}

for (const drop of document.querySelectorAll('[data-drop]')) {
  const picker = drop.querySelector('input');
  const said = make('p', { dir: 'auto' });
  said.setAttribute('role', 'status');
  const picture = make('img', { alt: words('script.picture'), hidden: true });
  picker.after(said, make('p', { className: 'hint', textContent: words('script.drop') }), picture);
  const show = () => {
    const [file] = picker.files;
    const most = Number(drop.dataset.drop);
    const large = file && file.size > most;
    const problem = large ? words('script.large', { size: size(file.size), most: size(most) }) : '';
    said.textContent = file
      ? `${file.name} (${file.type || words('script.unknown')}, ${size(file.size)}) ${problem}`
      : '';
    picker.setCustomValidity(problem);
    picture.hidden = true;
    if (!file || large || !/^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(file.type)) return;
    const reader = new FileReader();
    reader.addEventListener('load', () => {
      picture.src = reader.result;
    });
    reader.readAsDataURL(file);
  };
  picture.addEventListener('load', () => {
    picture.hidden = false;
  });
  picker.addEventListener('change', show);
  show(); // one may have been chosen before this script came
  for (const kind of ['dragenter', 'dragover']) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add('over');
    });
  }
  for (const kind of ['dragleave', 'drop'])
    drop.addEventListener(kind, () => drop.classList.remove('over'));
  drop.addEventListener('drop', (event) => {
    event.preventDefault();
    if (!event.dataTransfer.files.length) return;
    const one = new DataTransfer();
    one.items.add(event.dataTransfer.files[0]);
    picker.files = one.files;
    show();
  });
}

function size(count) {
  if (count < 1024) return `${count} bytes`;
  return count < 1000 * 1024
    ? `${Number((count / 1024).toPrecision(3))} KiB`
    : `${Number((count / 1024 ** 2).toPrecision(3))} MiB`;
}

document.querySelector('.problems')?.focus();
