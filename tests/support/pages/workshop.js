// An app whose one capability does what its parameter says, and that remembers what was done to it.
// In the address, `cancel` is the form of cancel() that it has, `list` how listCapabilities()
// answers.
'use strict';

const wishes = new URLSearchParams(location.search);
const done = { initialized: 0, cancelled: [], aborted: [] };
let valid = true;

const holding = (signal) =>
  new Promise((resolve, reject) => {
    signal.addEventListener(
      'abort',
      () => (done.aborted.push(signal.reason.message), reject(signal.reason)),
    );
  });

const WORKS = {
  ask: ({ by, request }) => window[by](request),
  hookAsk: ({ request }) => window.abp.onElicitation(request),
  // The same request object by two names, twice.
  askTwice: async ({ request }) => {
    const ask = () =>
      Promise.all([window.__abp_elicitation(request), window.abp.onElicitation(request)]);
    return [await ask(), await ask()];
  },
  tell: ({ by, message, more }) => window[by](message, more),
  hookTell: ({ hook, message }) => window.abp[hook](message),
  tellTwice: ({ message }) => (
    window.__abp_notification(message),
    window.__abp_notify(message),
    window.abp.onNotification(message)
  ),
  flood: ({ times }) => {
    for (let time = 0; time < times; time++)
      window.__abp_notification({ event: 'counted', data: { time } });
    window.__abp_progress({ progress: times });
  },
  tellThenAsk: async ({ request }) => {
    window.__abp_notification({ event: 'before' });
    return window.__abp_elicitation(request);
  },
  tellTooMuch: () => window.__abp_notification({ event: 'much', data: 'x'.repeat(2 ** 23) }),
  askTooMuch: () =>
    window.__abp_elicitation({
      method: 'elicitation/input',
      params: { prompt: 'x'.repeat(2 ** 23) },
    }),
  askNonsense: () => window.__abp_elicitation(window),
  // No longer wanted before it can have been asked.
  takeBack: ({ request }) => {
    const controller = new AbortController();
    const answer = window.__abp_elicitation({ ...request, signal: controller.signal });
    controller.abort();
    return answer;
  },
  confirm: () => confirm('Delete all?'),
  prompt: () => prompt('Your name?', 'Ann'),
  alert: () => alert('Look!'),
  confirmLater: () => setTimeout(() => (document.title = String(confirm('Later?'))), 0) && null,
  title: () => document.title,
  names: () =>
    Object.getOwnPropertyNames(window)
      .filter((name) => /abp/i.test(name))
      .sort(),
  hold: (_, { signal }) => holding(signal),
  done: () => done,
  leave: ({ to }) => void location.assign(to),
  askAndLeave: async ({ request, to }) => {
    window.__abp_elicitation(request);
    location.assign(to);
  },
  reload: () => void location.reload(),
  stay: () => (
    history.pushState(null, '', '/elsewhere'),
    (location.hash = 'here'),
    location.pathname
  ),
  leaveUnwillingly: ({ to }) => {
    addEventListener('beforeunload', (event) => event.preventDefault());
    location.assign(to);
  },
  open: ({ url }) => void window.open(url),
  save: ({ url, name }) =>
    void Object.assign(document.createElement('a'), { href: url, download: name }).click(),
  saveOften: ({ times, ...given }) => {
    for (let time = 0; time < times; time++) WORKS.save(given);
  },
  saveLater: (given) => void setTimeout(() => WORKS.save(given), 200),
  print: async () => {
    const heard = [];
    addEventListener('beforeprint', () => heard.push('before'), { once: true });
    const printed = new Promise((resolve) =>
      addEventListener('afterprint', resolve, { once: true }),
    );
    window.print();
    await printed;
    return [...heard, 'after'];
  },
  printOften: ({ times }) => {
    for (let time = 0; time < times; time++) window.print();
  },
  sign: ({ cookie }) => void (document.cookie = cookie),
  give: ({ kind }) => GIFTS[kind](),
  download: () =>
    Object.assign(document.createElement('a'), {
      href: 'data:application/x-test,x',
      download: 'x.bin',
    }).click(),
  large: ({ size }) => '👍'.repeat(size / 2),
  spin: () => {
    for (;;);
  },
  throw: () => {
    throw new TypeError('no such thing');
  },
  // Everything that a page's console can have, and a failure at the end.
  grumble: async ({ words }) => {
    console.error('no paper', { tray: 2 }, new RangeError('far'));
    console.warn(words);
    console.log('nothing that matters');
    Promise.reject(new Error('nobody caught it'));
    setTimeout(() => {
      throw new SyntaxError('too late');
    });
    await fetch('/no.json?key=1');
    await new Promise((resolve) => setTimeout(resolve));
    throw new TypeError('no such thing');
  },
  grumbleOften: ({ times }) => {
    for (let time = 0; time < times; time++) console.error(`time ${time}`);
  },
  // What it was told, in each way that a console has it.
  echo: async ({ words }) => {
    const given = words ?? prompt('Your password?');
    console.error('wrong:', given, { given });
    await fetch(`/check/${encodeURIComponent(given)}/no`);
    await fetch(`/check?given=${encodeURIComponent(given)}`);
    alert(`wrong: ${given}`);
    const name = encodeURIComponent(given);
    const source = `throw new Error('there')\n//# sourceURL=${location.origin}/${name}.js`;
    setTimeout(source);
    await new Promise((resolve) => setTimeout(resolve));
  },
  reject: () => Promise.reject({ code: 'OUT_OF_PAPER', message: 'Load paper', retryable: true }),
  rejectText: () => Promise.reject('just so'),
  rejectResponse: () =>
    Promise.reject({ success: false, error: { code: 'A_RESPONSE', message: 'rejected' } }),
  expire: () => (valid = false),
  cycle: () => {
    const ring = { name: 'ring' };
    ring.self = ring;
    return ring;
  },
  binary: () => ({
    buffer: new Uint8Array([1, 2, 3]).buffer,
    part: new Uint8Array([0, 1, 2, 3]).subarray(1, 3),
    view: new DataView(new ArrayBuffer(2)),
    blob: new Blob(['hi'], { type: 'text/plain' }),
    file: new File(['hi'], 'hi.txt'),
    typed: { mimeType: 'image/png', content: new Uint8Array([9]) },
    typedBlob: { mimeType: 'text/csv', content: new Blob(['hi'], { type: 'text/plain' }) },
    typedFile: { content: new File(['hi'], 'hi.csv'), size: 9, mimeType: 'text/csv' },
    beside: { mimeType: 'image/png', data: new Uint8Array([9]) },
    empty: new ArrayBuffer(0),
  }),
  odd: () => ({
    map: new Map([['a', new Map([[1, 2]])]]),
    set: new Set([1, 2]),
    date: new Date(0),
    noDate: new Date(NaN),
    big: 2n ** 70n,
    not: [NaN, Infinity, -0],
    gone: undefined,
    work: () => 1,
    holes: [undefined, () => 1],
    element: document.createElement('p'),
    error: Object.assign(new RangeError('far'), { far: 7 }),
    regexp: /a+/g,
    boxed: [Object('text'), Object(1), Object(true)],
    url: new URL('https://app.example/x'),
    query: new URLSearchParams('a=1'),
    half: 'half \ud83d',
    __proto__x: 1,
    get bad() {
      throw new Error('sealed');
    },
    proxy: new Proxy(
      {},
      {
        ownKeys() {
          throw new Error('shut');
        },
      },
    ),
    window,
  }),
  deep: () => {
    let value = 'bottom';
    for (let level = 0; level < 5000; level++) value = [value];
    return value;
  },
  undefined: () => undefined,
  broken: () => {
    JSON.stringify = () => 'tampered';
    JSON.parse = () => 'tampered';
    Array.prototype.toJSON = () => 'tampered';
    return [1, { a: ['b'] }];
  },
};

// Results as pages give them: what tests/apps/test_results.py calls them.
const range = (size) => Uint8Array.from({ length: size }, (_, at) => at);
const joined = (head, size) => new Uint8Array([...head, ...range(size)]);
const PNG = joined([0x89, 0x50, 0x4e, 0x47, 13, 10, 26, 10], 128);
const PDF = joined(new TextEncoder().encode('%PDF-1.4\n'), 256);
const NOISE = new Uint8Array(4096).map((_, at) => at);
const base64 = (bytes) => btoa(String.fromCharCode(...bytes));
const GIFTS = {
  blob: () => new Blob(['a,b'], { type: 'text/csv' }),
  file: () => ({ notes: new File(['hello'], 'notes.txt', { type: 'text/plain' }) }),
  buffer: () => range(4).buffer,
  'typed array': () => range(3).subarray(1),
  'blob with a type beside it': () => ({ content: new Blob([PDF]), mimeType: 'application/pdf' }),
  BinaryData: () => ({ content: base64(PNG), mimeType: 'image/png', encoding: 'base64' }),
  'base64 without a type': () => ({ pdf: base64(PDF) }),
  'base64 of no known kind': () => base64(NOISE),
  'data URL': () => `data:image/png;base64,${base64(PNG)}`,
  'deep inside': () => ({ parts: [{ pages: 2, thumb: { content: PNG, mimeType: 'image/png' } }] }),
  'another size than it says': () => ({ content: PNG, mimeType: 'image/png', size: 9 }),
  'text with a picture in it': () => `# T ![](data:image/png;base64,${base64(PNG)})`,
  'a long text': () => 'words '.repeat(10_000),
  downloadUrl: () => ({
    downloadUrl: '/file?body=mine&type=text/csv',
    mimeType: 'text/csv',
    size: 4,
  }),
  'downloadUrl of another type': () => ({
    downloadUrl: '/file?body=login&type=text/html',
    mimeType: 'application/pdf',
    size: 7,
  }),
  'downloadUrl that is not there': () => ({
    downloadUrl: '/file?status=404',
    mimeType: 'application/pdf',
  }),
  print: () => window.print(),
  download: () => WORKS.download() && null,
  'ten megabytes': () => new Blob([new Uint8Array(10 * 2 ** 20)]),
};

const CANCELS = {
  positional: (id) => (
    done.cancelled.push(id),
    typeof id === 'string' ? { callId: id, cancelled: true } : { callId: '', cancelled: false }
  ),
  object: ({ callId }) => (done.cancelled.push(callId ?? 'nothing'), { callId, cancelled: true }),
  stub: () => ({ callId: '', cancelled: false }),
  stuck: () => new Promise(() => {}),
};

window.abp = {
  initialize: async ({ agent }) => {
    done.initialized++;
    valid = true;
    const capabilities =
      wishes.get('list') === 'only'
        ? []
        : [
            { name: 'run', available: true },
            { name: 'raw', available: true },
          ];
    return {
      sessionId: `s${done.initialized}`,
      protocolVersion: wishes.get('version') ?? '0.1',
      app: { id: 'workshop', name: agent.name },
      capabilities,
    };
  },
  shutdown: async () => {},
  call: async (name, params, options) => {
    if (!valid)
      return {
        success: false,
        error: {
          code: wishes.get('expired') ?? 'SESSION_EXPIRED',
          message: 'too old',
          retryable: true,
        },
      };
    const data = await WORKS[params.work](params, options);
    return name === 'raw' ? data : { success: true, data };
  },
  cancel: CANCELS[wishes.get('cancel')],
};
if (wishes.get('cancel') === 'global')
  window.__abp_cancel = (id, reason) => done.cancelled.push(`${id}: ${reason}`);
if (wishes.get('list') === 'rejects')
  window.abp.listCapabilities = () => Promise.reject(new Error('no list'));
if (wishes.get('list') === 'empty') window.abp.listCapabilities = async () => [];
if (wishes.get('list') === 'wrapped')
  window.abp.listCapabilities = async () => ({
    success: true,
    data: [{ name: 'run', description: 'From the list' }],
  });
if (wishes.get('refuse'))
  window.abp.initialize = () => Promise.reject({ code: 'NOT_SUPPORTED', message: 'not today' });
