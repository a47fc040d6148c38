// Comforts only: the page works without this. It says when a question has ended elsewhere, searches long lists, and checks JSON while it is typed.
'use strict';

const open = document.querySelector('[data-open]');

if (open) {
  const events = new EventSource(`${open.getAttribute('action')}/events`);
  events.addEventListener('ended', (event) => {
    events.close();
    if (!open.dataset.sent) say(JSON.parse(event.data));
  });
  open.addEventListener('submit', () => { open.dataset.sent = 'yes'; });
}

function say(words) {
  const note = document.createElement('p');
  note.className = 'warning';
  note.setAttribute('role', 'alert');
  note.textContent = words;
  open.replaceWith(note);
}

for (const options of document.querySelectorAll('[data-search]')) {
  const search = document.createElement('input');
  search.type = 'search';
  search.placeholder = 'Search';
  search.setAttribute('aria-label', 'Search the choices');
  search.addEventListener('input', () => {
    for (const option of options.children) option.hidden = !option.textContent.toLowerCase().includes(search.value.toLowerCase());
  });
  options.before(search);
}

for (const area of document.querySelectorAll('[data-json]')) {
  area.addEventListener('input', () => {
    let problem = '';
    try { if (area.value.trim()) JSON.parse(area.value); } catch (error) { problem = `This is not JSON yet: ${error.message}`; }
    area.setCustomValidity(problem);
  });
}

document.querySelector('.problems')?.focus();
