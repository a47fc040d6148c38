// An app that answers sloppily. In the address, `initialize` and `list` are what those answer; a
// call says what it is answered, and how it asks and tells.
'use strict';

const wishes = new URLSearchParams(location.search);
const ring = { name: 'ring' };
ring.self = ring;
class Own {
  #hidden = 1;
}

const KINDS = {
  undefined: () => undefined,
  null: () => null,
  number: () => 7,
  nan: () => NaN,
  bigint: () => 2n ** 70n,
  boolean: () => true,
  text: () => 'done',
  empty: () => '',
  list: () => [1],
  emptyList: () => [],
  object: () => ({}),
  symbol: () => Symbol('s'),
  function: () => () => 1,
  date: () => new Date(0),
  noDate: () => new Date(NaN),
  map: () =>
    new Map([
      ['success', true],
      ['data', 1],
    ]),
  numbersMap: () => new Map([[1, 2]]),
  set: () => new Set([1]),
  cyclic: () => ring,
  error: () => new Error('returned'),
  element: () => document.body,
  window: () => window,
  response: () => new Response('x'),
  class: () => new Own(),
  json: () => '{"success": true, "data": 1}',
  throwText: () => {
    throw 'just so';
  },
  throwNothing: () => {
    throw undefined;
  },
  throwNull: () => {
    throw null;
  },
  throwNumber: () => {
    throw 7;
  },
  throwError: () => {
    throw new Error('no such thing');
  },
  throwEmpty: () => {
    throw new Error();
  },
  throwProxy: () => {
    throw new Proxy(
      {},
      {
        get() {
          throw new Error('shut');
        },
        ownKeys() {
          throw new Error('shut');
        },
      },
    );
  },
  throwCyclic: () => {
    throw ring;
  },
  throwEvent: () => {
    throw new Event('error');
  },
  reject: () => Promise.reject(),
  rejectText: () => Promise.reject('just so'),
  rejectList: () => Promise.reject([1]),
  thenable: () => ({ then: (resolve) => resolve({ success: true, data: 1 }) }),
  badThenable: () => ({
    get then() {
      throw 'never';
    },
  }),
  successText: () => ({ success: 'true', data: 1 }),
  failureText: () => ({ success: 'false', error: { code: 'OUT_OF_PAPER', message: 'Load paper' } }),
  successNumber: () => ({ success: 1, data: 1 }),
  successNull: () => ({ success: null, data: 1 }),
  noSuccess: () => ({ data: 1 }),
  errorAlone: () => ({ error: { code: 'OUT_OF_PAPER', message: 'Load paper' } }),
  errorText: () => ({ error: 'Load paper' }),
  noData: () => ({ success: true }),
  undefinedData: () => ({ success: true, data: undefined }),
  promiseData: () => ({ success: true, data: Promise.resolve(1) }),
  dateData: () => ({
    success: true,
    data: {
      at: new Date(0),
      not: new Date(NaN),
      n: NaN,
      big: 2n ** 70n,
      map: new Map([[1, 2]]),
      ring,
    },
  }),
  failure: () => ({ success: false }),
  failureNull: () => ({ success: false, error: null }),
  failureError: () => ({ success: false, error: new Error('no such thing') }),
  failureList: () => ({ success: false, error: ['no'] }),
  codeNumber: () => ({ success: false, error: { code: 404, message: 'not there' } }),
  half: () => ({ success: true, data: 'half \ud83d' }),
  halfKey: () => ({ success: true, data: { '\ud83d': 1 } }),
  huge: () => ({ success: true, data: 1e308 * 10 }),
  tall: () => ({ success: true, data: { n: 10n ** 5000n } }),
  nullCapabilities: () => ({
    sessionId: 's',
    app: { id: 'sloppy', name: 'Sloppy' },
    capabilities: null,
  }),
  objectCapabilities: () => ({
    sessionId: 's',
    app: { id: 'sloppy', name: 'Sloppy' },
    capabilities: { run: {} },
  }),
  oddCapabilities: () => ({
    sessionId: 's',
    app: { id: 'sloppy', name: 'Sloppy' },
    capabilities: [
      null,
      7,
      {},
      'run',
      { name: 7 },
      { name: 'x', inputSchema: [] },
      { name: 'y', inputSchema: { properties: null } },
    ],
  }),
  nullApp: () => ({ sessionId: null, app: null, capabilities: ['run'] }),
  textApp: () => ({ sessionId: 5, app: 'Sloppy', protocolVersion: 1, capabilities: ['run'] }),
  wrapped: () => ({
    success: true,
    data: { sessionId: 's', app: { id: 'sloppy', name: 'Sloppy' }, capabilities: ['run'] },
  }),
};

const good = () => ({
  sessionId: 's',
  protocolVersion: '0.1',
  app: { id: 'sloppy', name: 'Sloppy' },
  capabilities: [{ name: 'run' }, { name: 'ask' }, { name: 'tell' }],
});

window.abp = {
  initialize: () => (KINDS[wishes.get('initialize') ?? ''] ?? good)(),
  shutdown: () => (KINDS[wishes.get('shutdown') ?? ''] ?? KINDS.undefined)(),
  call: (name, { kind, by, member }) => {
    if (name === 'run') return KINDS[kind]();
    const given = member ? { method: 'elicitation/input', [member]: KINDS[kind]() } : KINDS[kind]();
    const answer = window[by](given);
    return name === 'tell'
      ? { success: true, data: 'told' }
      : answer.then((data) => ({ success: true, data }));
  },
};
if (wishes.has('list')) window.abp.listCapabilities = () => KINDS[wishes.get('list')]();
if (wishes.has('kinds')) window.abp.listCapabilities = () => Object.keys(KINDS);
