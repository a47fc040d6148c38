// Comforts only: the page works without this. It says when a question has ended, counts down, keeps the inbox fresh, searches long lists, checks what
// can be checked while it is filled in, and takes files that are dropped.
'use strict';

// Streams are closed while a tab is hidden: a browser has few connections to one server, and many tabs may be open.
function listen(address, listeners) {
  let events;
  const follow = () => {
    events?.close();
    events = undefined;
    if (document.hidden) return;
    events = new EventSource(address);
    for (const [name, heard] of Object.entries(listeners)) events.addEventListener(name, heard);
  };
  document.addEventListener('visibilitychange', follow);
  follow();
  return () => {
    document.removeEventListener('visibilitychange', follow);
    events?.close();
  };
}

const open = document.querySelector('[data-open]');
const inbox = document.querySelector('[data-inbox]');
if (open) {
  const stop = listen(open.dataset.open, {
    message: refresh,
    ended: (event) => {
      stop();
      if (open.dataset.sent) return;
      say(JSON.parse(event.data));
      listen(inbox.dataset.inbox, { message: refresh });
    },
  });
  open.addEventListener('submit', () => { open.dataset.sent = 'yes'; });
  window.addEventListener('pageshow', () => { delete open.dataset.sent; });
}

// What was seen here is cancelled where no tab is left, and none comes back in a while.
if (inbox) {
  const home = inbox.dataset.inbox.replace(/events$/, '');
  const tab = crypto.randomUUID();
  for (const [event, word] of [['pageshow', 'here'], ['pagehide', 'left']]) {
    window.addEventListener(event, () => { navigator.sendBeacon(`${home}${word}/${tab}`); });
  }
}

function say(words) {
  const note = document.createElement('p');
  note.className = 'warning';
  note.setAttribute('role', 'alert');
  note.textContent = words;
  for (const over of document.querySelectorAll('.when, .problems')) over.remove();
  open.replaceWith(note);
  document.title = `Closed: ${document.title}`;
}

if (inbox && !open) listen(inbox.dataset.inbox, { message: refresh });

// What is open is another now. Who has nothing else in hand gets to the next question with Enter.
async function refresh(event) {
  if (event.data === inbox.dataset.version) return;
  const response = await fetch(location.href);
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  const focused = document.activeElement?.getAttribute('href');
  const now = fresh.querySelector('[data-inbox]');
  inbox.dataset.version = now.dataset.version;
  inbox.replaceChildren(...now.childNodes);
  if (!open?.isConnected) document.title = fresh.title;
  const next = focused ? inbox.querySelector(`[href="${CSS.escape(focused)}"]`) : null;
  if (next) next.focus();
  else if (!open?.isConnected && document.activeElement === document.body) inbox.querySelector('a')?.focus();
  count();
}

function count() {
  for (const time of document.querySelectorAll('[data-ends]')) {
    const left = Math.max(0, Math.round(time.dataset.ends - Date.now() / 1000));
    time.dataset.said ??= time.textContent;
    const clock = `${Math.floor(left / 60)}:${String(left % 60).padStart(2, '0')}`;
    time.textContent = `${time.dataset.said} (${clock} left)`;
  }
}
count();
setInterval(count, 1000);

for (const options of document.querySelectorAll('[data-search]')) {
  const search = document.createElement('input');
  search.type = 'search';
  search.placeholder = 'Search';
  search.autocomplete = 'off';
  search.setAttribute('aria-label', 'Search the choices');
  const found = document.createElement('p');
  found.className = 'hint';
  found.setAttribute('role', 'status');
  const all = [...options.children].map((option) => [option, option.textContent.toLowerCase()]);
  search.addEventListener('input', () => {
    const words = search.value.toLowerCase();
    let shown = 0;
    for (const [option, text] of all) {
      option.hidden = !text.includes(words);
      if (!option.hidden) shown += 1;
    }
    found.textContent = words ? `${shown} of ${all.length} shown` : '';
  });
  search.addEventListener('keydown', (event) => { if (event.key === 'Enter') event.preventDefault(); });
  options.before(search, found);
}

for (const hint of document.querySelectorAll('[data-count]')) {
  const boxes = [...hint.parentElement.querySelectorAll('.options input')];
  const least = Number(hint.dataset.least);
  const most = Number(hint.dataset.most ?? Infinity);
  const said = hint.textContent;
  const check = () => {
    const chosen = boxes.filter((box) => box.checked).length;
    hint.textContent = `${said} ${chosen} chosen.`;
    const left = chosen === 0 && 'optional' in hint.dataset;
    boxes[0]?.setCustomValidity(!left && (chosen < least || chosen > most) ? said : '');
  };
  hint.parentElement.addEventListener('change', check);
  check();
}

for (const area of document.querySelectorAll('[data-json]')) {
  area.addEventListener('input', () => {
    let problem = '';
    try { if (area.value.trim()) JSON.parse(area.value); } catch (error) { problem = `This is not JSON yet: ${error.message}`; }
    area.setCustomValidity(problem);
  });
}

for (const drop of document.querySelectorAll('[data-drop]')) {
  const picker = drop.querySelector('input');
  const said = document.createElement('p');
  said.setAttribute('role', 'status');
  const hint = document.createElement('p');
  hint.className = 'hint';
  hint.textContent = 'Or drop a file here.';
  picker.after(said, hint);
  const show = () => {
    const file = picker.files[0];
    const large = file && file.size > Number(drop.dataset.drop);
    said.textContent = file ? `${file.name} (${file.type || 'unknown type'}, ${size(file.size)})` : '';
    picker.setCustomValidity(large ? `This file is too large: ${size(file.size)}, and at most ${size(Number(drop.dataset.drop))} can be given.` : '');
  };
  picker.addEventListener('change', show);
  for (const kind of ['dragenter', 'dragover']) {
    drop.addEventListener(kind, (event) => {
      event.preventDefault();
      drop.classList.add('over');
    });
  }
  for (const kind of ['dragleave', 'drop']) drop.addEventListener(kind, () => drop.classList.remove('over'));
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
  return count < 1000 * 1024 ? `${Number((count / 1024).toPrecision(3))} KiB` : `${Number((count / 1024 ** 2).toPrecision(3))} MiB`;
}

document.querySelector('.problems')?.focus();
