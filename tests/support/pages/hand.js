// What only a hand in the page can do, of the kind that the address names. What is to be pressed
// fills the window, and is coloured so that a test can see whether it is drawn.
'use strict';
const kind = location.search.slice(1);
const area = (element, colour) => {
  element.style.cssText = `position:fixed; inset:0; width:100vw; height:100vh; max-width:none;
    max-height:none; border:0; background:${colour}; z-index:9`;
  return element;
};
const make = (name, ...inside) => {
  const made = document.createElement(name);
  made.append(...inside);
  return made;
};

customElements.define('own-made', class extends HTMLElement {
  static formAssociated = true;
  #internals = this.attachInternals();
  set value(value) {
    this.#internals.setFormValue(value);
    this.#internals.setValidity(value ? {} : { valueMissing: true }, 'A card is missing');
  }
});

const template = document.getElementById(kind === 'bank' ? 'card' : kind);
if (template) document.body.append(template.content.cloneNode(true));
const form = document.querySelector('form');
const button = form?.querySelector('button');
form?.addEventListener('submit', (event) => {
  event.preventDefault();
  const held = Object.fromEntries(new FormData(form));
  event.respondWith?.(Promise.resolve({ ...held, trusted: navigator.userActivation.isActive }));
});

const KINDS = {
  card: () => {
    const frame = make('iframe');
    frame.src = `//localhost:${location.port}/empty.html`;
    form.prepend(frame);
    area(button, '#00c000');
  },
  captcha: () => {
    const human = area(make('div', 'I am no robot'), '#c000c0');
    human.addEventListener('click', () => ((button.disabled = false), human.remove()));
    document.body.append(human);
  },
  bank: () => {
    KINDS.card();
    button.addEventListener('click', (event) => {
      event.preventDefault();
      location.assign(`//localhost:${location.port}/empty.html`);
    });
  },
  own: () => {
    const card = form.querySelector('own-made');
    card.value = '';
    area(card, '#0000c0').addEventListener('click', () => {
      card.value = '4711';
      area(button, '#00c000').style.zIndex = 10;
    });
  },
  picky: () => {
    form.addEventListener('input', () => (form.shop.value += '1'));
    area(button, '#00c000');
  },
};
KINDS[kind]?.();

const tool = (name, description, execute, annotations = {}) =>
  document.modelContext.registerTool({ name, description, execute, annotations });

const QUIET = { readOnlyHint: true };
tool('look', 'Looks', () => [form?.name.value ?? '', document.visibilityState], QUIET);
tool('sheet', 'Pays in a sheet', () => {
  const yes = area(make('button', 'Approve'), '#c06000');
  const sheet = make('dialog', yes);
  document.body.append(sheet);
  sheet.showModal();
  return new Promise((resolve) => yes.addEventListener('click', (event) => {
    sheet.remove();
    resolve({ paid: true, trusted: event.isTrusted });
  }));
});
tool('spinner', 'Shows that it works', async () => {
  const sheet = make('dialog', 'Please wait');
  document.body.append(sheet);
  sheet.showModal();
  await new Promise((resolve) => setTimeout(resolve, 300));
  sheet.remove();
  return 'done';
});
