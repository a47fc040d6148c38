// What a page wrote of its tools, for whoever checks it: the browser tells of those that it took,
// and of no other. Run twice: before the page's first script it notes each registration from then
// on, and later, with `read`, it says what there is, and how much more than it says.
function written(read) {
  'use strict';
  const AT = Symbol.for('abp-bridge.written');
  const MOST = 500; // of each kind
  const UNASKED = new Set(['hidden', 'submit', 'reset', 'button', 'image', 'fieldset', 'output']);

  function note() {
    const made = globalThis.ModelContext?.prototype;
    if (!made?.registerTool) return;
    const noted = { tools: [], count: 0 };
    Object.defineProperty(globalThis, AT, { value: noted });
    const register = made.registerTool;
    made.registerTool = function (tool, ...rest) {
      const said = { problem: '' };
      try {
        said.name = String(tool?.name ?? '');
        said.members = Object.keys(tool ?? {});
        said.annotations = Object.keys(tool?.annotations ?? {});
      } catch {
        // It throws when it is looked at: the browser's own error says more.
      }
      if (noted.count++ < MOST) noted.tools.push(said);
      const fail = (problem) => (said.problem = String(problem));
      try {
        const promise = register.call(this, tool, ...rest);
        promise?.then?.(() => {}, fail);
        return promise;
      } catch (problem) {
        fail(problem);
        throw problem;
      }
    };
  }

  const named = (each) => each.getAttributeNames();
  const field = (each) => ({
    name: each.getAttribute('name') ?? '',
    words: each.id || each.labels?.[0]?.textContent.trim().slice(0, 80) || each.type || '',
    asked: !UNASKED.has(each.type) && each.localName !== 'object',
    attributes: named(each),
  });
  const elements = (each) => [...Reflect.get(HTMLFormElement.prototype, 'elements', each)];
  const form = (each) => ({
    name: each.getAttribute('toolname') ?? '',
    description: each.getAttribute('tooldescription') ?? '',
    attributes: named(each),
    fields: elements(each).slice(0, MOST).map(field),
  });
  const beyond = (count) => Math.max(0, count - MOST);
  if (!read) return note();
  const { tools, count } = globalThis[AT] ?? { tools: [], count: 0 };
  const all = [...document.querySelectorAll('form')];
  const forms = all.slice(0, MOST);
  const fields = forms.reduce((sum, each) => sum + beyond(elements(each).length), 0);
  const unread = { most: MOST, tool: beyond(count), form: beyond(all.length), field: fields };
  return JSON.stringify({ tools, forms: forms.map(form), unread });
}
