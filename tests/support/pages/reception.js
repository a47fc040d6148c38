// One tool of every kind that WebMCP has. A form that is sent says what it was sent with.
'use strict';
const $ = (id) => document.getElementById(id);
const sent = (event) => {
  const held = {};
  for (const [name, value] of new FormData(event.target, event.submitter))
    held[name] = value instanceof File ? `${value.name}, ${value.size} bytes` : value;
  return held;
};
const answer = (id, make) =>
  $(id).addEventListener('submit', (event) => {
    event.preventDefault();
    event.respondWith(Promise.resolve(make(sent(event))));
  });
for (const id of ['book', 'photo', 'close', 'find', 'seat']) answer(id, (held) => ({ sent: held }));
// A page that is careless with a secret repeats it, in more than one spelling.
answer('sign', ({ user, pass }) => ({
  user,
  token: btoa(pass),
  next: `/?as=${encodeURIComponent(pass)}`,
  note: `signed in with ${pass}`,
}));

const READS = { annotations: { readOnlyHint: true } };
const tool = (name, description, execute, more = {}) =>
  document.modelContext.registerTool({ name, description, execute, ...more });

tool('add', 'Adds two numbers', ({ a, b = 0 }) => ({ sum: a + b }), {
  inputSchema: {
    type: 'object',
    properties: { a: { type: 'number' }, b: { type: 'number' } },
    required: ['a'],
  },
  ...READS,
});
tool(
  'shaped',
  'Answers as MCP does',
  () => ({ content: [{ type: 'text', text: 'hello' }] }),
  READS,
);
tool(
  'fail',
  'Fails',
  () => {
    throw new RangeError('no more chairs');
  },
  READS,
);
tool('wipe', 'Wipes all', ({ table }) => ({ wiped: table }), {
  inputSchema: { type: 'object', properties: { table: { type: 'string' } } },
  annotations: { consequentialHint: true },
});
tool('ask', 'Asks in a dialog', () => ({ sure: confirm('Really?') }), READS);
tool('name', 'Asks for a word', () => ({ named: prompt('What name?', 'Ann') }), READS);
tool('warn', 'Warns', () => (alert('Closed on Mondays'), 'warned'), READS);
tool('unlock', 'Takes a secret', ({ pin }) => `opened with ${pin}`, {
  inputSchema: {
    type: 'object',
    properties: { pin: { type: 'string', writeOnly: true } },
    required: ['pin'],
  },
  ...READS,
});
const WORK = {
  leave: () => location.assign('/reception.html?again'),
  more: () => void tool('later', 'Came later', () => 'late', READS),
};
// What a test has the page do to itself, when the test says so (`Web.happened`).
const when = async (what) => {
  while (!(await (await fetch(`/happened?what=${what}`)).json()))
    await new Promise((done) => setTimeout(done, 50));
  WORK[what]();
};
tool('work', 'Does something to the page', ({ what }) => (void when(what), 'done'), {
  inputSchema: { type: 'object', properties: { what: { type: 'string' } } },
  ...READS,
});
