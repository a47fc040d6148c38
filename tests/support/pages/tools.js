// Tools of every kind. A form that is sent says what it was sent with.
'use strict';
const $ = (id) => document.getElementById(id);
const sent = (event) => {
  const held = {};
  for (const [name, value] of new FormData(event.target, event.submitter))
    held[name] = value instanceof File ? `${value.name}, ${value.size} bytes` : value;
  return held;
};
for (const id of ['table', 'account', 'photo', 'odd', 'search'])
  $(id).addEventListener('submit', (event) => {
    event.preventDefault();
    event.respondWith?.(Promise.resolve({ sent: sent(event), agent: event.agentInvoked }));
  });

const once = new AbortController();
const tool = (name, description, execute, { options, ...more } = {}) =>
  document.modelContext.registerTool({ name, description, execute, ...more }, options);

const PAIR = {
  type: 'object',
  properties: { a: { type: 'number' }, b: { type: 'number' } },
  required: ['a'],
};
tool('add', 'Adds two numbers', ({ a, b = 0 }) => ({ sum: a + b }), {
  inputSchema: PAIR,
  annotations: { readOnlyHint: true },
});
tool('shaped', 'Answers as MCP does', () => ({ content: [{ type: 'text', text: 'hello' }] }), {
  annotations: { readOnlyHint: true, untrustedContentHint: true },
});
tool('fail', 'Fails', () => {
  throw new RangeError('no more chairs');
});
tool('wipe', 'Wipes all', () => ({ wiped: true }), { annotations: { consequentialHint: true } });
tool('ask', 'Asks in a dialog', () => ({ sure: confirm('Sure?') }));
tool('login', 'Takes a secret', ({ user, pin }) => ({ user, said: `pin ${pin}` }), {
  inputSchema: {
    type: 'object',
    properties: { user: { type: 'string' }, pin: { type: 'string', writeOnly: true } },
    required: ['user', 'pin'],
  },
});
tool('hang', 'Never answers', () => new Promise(() => {}));

const QUIET = { annotations: { readOnlyHint: true } };
tool(
  'once',
  'Takes itself away and answers then',
  async () => {
    once.abort();
    return 'answered';
  },
  { ...QUIET, options: { signal: once.signal } },
);

// What a test has the page do to itself.
const WORK = {
  remove: () => $('table').remove(),
  reset: () => $('table').reset(),
  leave: () => location.assign('/tools.html?again'),
  away: () => location.assign(`//localhost:${location.port}/tools.html`),
  rewrite: () =>
    $('table').addEventListener('change', () => ($('table').shop.value = '99'), { once: true }),
  more: () =>
    void tool('later', 'Came later', () => 'late', { annotations: { readOnlyHint: true } }),
  many: () => {
    for (let at = 0; at < 300; at++) tool(`tool${at}`, 'One of many', () => at, QUIET);
  },
  bare: (source) => WORK.frame(source, ''),
  elsewhere: (source) => (document.querySelector('iframe').src = source),
  frame: (source, allow = 'tools') => {
    const frame = document.createElement('iframe');
    frame.src = source;
    frame.allow = allow;
    document.body.append(frame);
  },
};
tool(
  'work',
  'Does something to the page',
  ({ what, given }) => {
    setTimeout(() => WORK[what](given));
    return 'done';
  },
  { inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
);
