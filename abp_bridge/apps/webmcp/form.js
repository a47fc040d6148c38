// What reads, sets and sends a form of a page, in a world of its own where no script of the page's
// has been. `this` is the form, and `work` one of the names at the foot.
//
// A control called `elements`, `submit` or `requestSubmit` stands before the form's own member of
// that name: so nothing is reached by the form, only by its prototypes.
function run(work, given) {
  'use strict';
  const form = this;
  const getter = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).get;
  const setter = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).set;
  const own = (name) => getter(HTMLFormElement.prototype, name).call(form);
  const matches = (element, selector) => Element.prototype.matches.call(element, selector);

  const QUIET = new Set(['submit', 'reset', 'button', 'image', 'fieldset', 'output', 'object']);
  const LONGEST = 4000000; // characters of a form that crosses

  // All of them: who shows them says what is cut.
  const words = (text) => (text ?? '').replace(/\s+/g, ' ').trim();
  const text = (value) => String(value ?? '');

  function submitters() {
    const root = Node.prototype.getRootNode.call(form);
    const found = [...root.querySelectorAll('button, input')];
    return found.filter(
      (each) => each.form === form && (each.type === 'submit' || each.type === 'image'),
    );
  }

  function submitter() {
    const found = submitters().filter((each) => !each.disabled);
    return found.find((each) => matches(each, ':tool-submit-active')) ?? found[0] ?? null;
  }

  // The words of a label, without those of a control that stands in it.
  function labelText(label) {
    const copy = Node.prototype.cloneNode.call(label, true);
    for (const each of copy.querySelectorAll('select, textarea, button, output, script, style'))
      each.remove();
    return copy.textContent;
  }

  function labelOf(control) {
    const labels = [...(control.labels ?? [])].map(labelText);
    const named = labels.join(' ') || control.getAttribute('aria-label') || control.placeholder;
    return words(named || control.title);
  }

  function descriptionOf(control) {
    const group = control.closest('fieldset[toolparamdescription]');
    const said = control.getAttribute('toolparamdescription');
    return words(said ?? group?.getAttribute('toolparamdescription'));
  }

  // One that the page made itself need not say what it is called.
  const nameOf = (control) => String(control.name ?? control.getAttribute('name') ?? '');

  const controls = () =>
    [...own('elements')].filter(
      (each) =>
        !QUIET.has(each.type) &&
        each.tagName !== 'OBJECT' &&
        !matches(each, ':disabled') &&
        isWanted(each),
    );

  // What has no name is not sent, but may keep all from being sent.
  const isWanted = (control) =>
    nameOf(control) || control.required === true || problemOf(control) !== '';

  // All that the browser would send now, whoever adds it: by name and value, or a file's name.
  function entries() {
    const fileName = ({ name, size }) => name || (size > 0 ? 'a file without a name' : '');
    return [...new FormData(form, submitter())].map(([name, value]) =>
      typeof value === 'string' ? { name, value } : { name, file: fileName(value) },
    );
  }

  function problemOf(control) {
    if (control.willValidate === undefined)
      return matches(control, ':invalid') ? words(control.validationMessage || 'does not fit') : '';
    return control.willValidate && !control.validity.valid ? control.validationMessage : '';
  }

  // What is in another's frame nobody here can read or fill in; what cannot be seen asks nobody.
  function frames() {
    const seen = [...Element.prototype.querySelectorAll.call(form, 'iframe')].filter((each) => {
      const { width, height } = each.getBoundingClientRect();
      return each.contentDocument === null && width >= 40 && height >= 20;
    });
    return seen.map((each) => URL.parse(each.src)?.origin ?? '');
  }

  const isFixed = ({ type, readOnly }) =>
    type === 'hidden' || type === undefined || readOnly === true;

  function read(control) {
    const attribute = (name) => control.getAttribute(name) ?? '';
    return {
      type: control.type ?? '?',
      name: nameOf(control),
      id: attribute('id'),
      value: control.type === 'file' ? '' : text(control.value),
      checked: control.checked === true,
      label: labelOf(control),
      description: descriptionOf(control),
      required: control.required === true,
      min: attribute('min'),
      max: attribute('max'),
      step: attribute('step'),
      minLength: control.minLength > 0 ? control.minLength : null,
      maxLength: control.maxLength >= 0 ? control.maxLength : null,
      pattern: attribute('pattern'),
      autocomplete: attribute('autocomplete'),
      accept: attribute('accept'),
      fixed: isFixed(control),
      problem: problemOf(control),
      options: control.options
        ? [...control.options].map((each) => ({
            value: text(each.value),
            label: words(each.label || each.textContent),
            selected: each.selected,
            disabled: matches(each, ':disabled'),
          }))
        : [],
    };
  }

  // The page hears of `entries`: only a form that is called is asked for them, or soon will be.
  // All of it or nothing: what was cut would be sent unseen.
  function readAll(isCalled = false) {
    const said = JSON.stringify(describe(isCalled));
    if (said.length > LONGEST) throw new Error('it is too large');
    return said;
  }

  function describe(isCalled) {
    const button = submitter();
    const active = matches(form, ':tool-form-active');
    return {
      active,
      sends: active || isCalled ? entries() : null,
      method: (button?.hasAttribute('formmethod') && button.formMethod) || own('method'),
      action: (button?.hasAttribute('formaction') && button.formAction) || own('action'),
      target: (button?.hasAttribute('formtarget') && button.formTarget) || own('target'),
      submit: button && {
        text: words(button.textContent || button.alt || button.value || button.title),
        name: button.type === 'image' ? '' : button.name, // it sends where it was pressed
        value: text(button.value),
      },
      controls: controls().map(read),
      frames: frames(),
    };
  }

  const PROTOTYPES = {
    TEXTAREA: HTMLTextAreaElement.prototype,
    SELECT: HTMLSelectElement.prototype,
    INPUT: HTMLInputElement.prototype,
  };

  function set(control, state) {
    if (typeof state === 'boolean')
      setter(HTMLInputElement.prototype, 'checked').call(control, state);
    else if (Array.isArray(state))
      for (const each of control.options) each.selected = state.includes(each.value);
    else setter(PROTOTYPES[control.tagName], 'value').call(control, state);
    for (const name of ['input', 'change'])
      control.dispatchEvent(new Event(name, { bubbles: true, composed: name === 'input' }));
  }

  const plain = (value) => text(value).replaceAll('\r\n', '\n');

  // What a field that may be filled in holds, as it is sent.
  function held(control) {
    if (control.type === 'checkbox' || control.type === 'radio')
      return control.checked ? [control.value] : [];
    const chosen = (each) => each.selected && !matches(each, ':disabled');
    return control.options
      ? [...control.options].filter(chosen).map((each) => each.value)
      : [control.value];
  }

  // What is sent beside what its fields hold, and what of that is not sent.
  function beside(all) {
    const sent = all.map(({ name, value, file }) => [name, plain(value ?? file)].join('\0'));
    const missing = [];
    const fields = controls().filter((each) => nameOf(each) && each.type !== 'file');
    for (const field of fields.filter((each) => !isFixed(each)))
      for (const value of held(field)) {
        const at = sent.indexOf([field.name, plain(value)].join('\0'));
        if (at >= 0) sent.splice(at, 1);
        else if (value !== '') missing.push(field.name);
      }
    return JSON.stringify([sent, missing]);
  }

  // Of each form that sends itself what it may send beside its fields, and what it would have sent
  // where that is other. A name in this world would be that of an element of the page's first.
  const guards = (globalThis[Symbol.for('guards')] ??= new WeakMap());

  function guard(known) {
    guards.get(form)?.end();
    const now = entries();
    if (JSON.stringify(known) !== JSON.stringify(now)) return false;
    const root = Node.prototype.getRootNode.call(form);
    const allowed = beside(now);
    const kept = { stopped: null, end: () => root.removeEventListener('submit', look, true) };
    function look(event) {
      if (event.target !== form || event.agentInvoked === false) return;
      kept.end();
      if (beside(entries()) === allowed) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      kept.stopped = readAll(true);
    }
    root.addEventListener('submit', look, true);
    guards.set(form, kept);
    return true;
  }

  const WORK = {
    // `given` is what `read` returned: what is sent beside the fields is that or nothing.
    guard: () => guard(JSON.parse(given).sends),
    stopped: () => guards.get(form)?.stopped ?? null,
    read: () => readAll(given === true), // whether it is about to be called
    // `given` is [[place of a control, what it has to hold], ...]
    set: () => {
      const all = controls();
      for (const [place, state] of given) if (all[place]) set(all[place], state);
      return readAll();
    },
    // `given` is what `read` returned and the person accepted: what is sent is that or nothing.
    send: () => {
      if (readAll() !== given || !matches(form, ':tool-form-active')) return 'changed';
      HTMLFormElement.prototype.requestSubmit.call(form, submitter());
      return 'sent';
    },
    reset: () => HTMLFormElement.prototype.reset.call(form),
    control: () => controls()[given],
  };
  return WORK[work]();
}
