// What runs in an app's page, before any script of the app's own.
//
// In the main frame it gives the app every name that ABP's documents use for asking and telling
// (X1, X2, X4), spells whatever crosses as JSON text (X18, X27, X29), and keeps the desk that
// page.py works on. Who may ask is not decided here, where the page could change it, but in
// page.py.
(() => {
  'use strict';

  const post = window.__abpBridgePost; // (kind, text) -> what page.py answers

  // In other frames nobody may ask: the names are not there, page.py refuses whoever finds the way
  // to it, and dialogs are dismissed before they open (two open at once, from two frames, hang
  // Chromium). It is told that they tried.
  if (window.top !== window) {
    for (const [name, dismissed] of [
      ['alert', undefined],
      ['confirm', false],
      ['prompt', null],
      ['print', undefined],
    ]) {
      const refused = () => (post('dialog').catch(() => {}), dismissed);
      Object.defineProperty(window, name, { value: refused, writable: true, configurable: false });
    }
    return;
  }

  delete window.__abpBridgePost;

  const SLICE = 1 << 20; // characters that cross at once
  const LARGEST_RESULT = 1 << 26;
  const LARGEST_MESSAGE = 1 << 23;
  const DEEPEST = 100;
  const BATCH = 500;
  const CANCEL_PATIENCE = 100; // milliseconds for each form of cancel

  // Pages replace these; what crosses must not depend on it.
  const { parse, stringify } = JSON;
  const { isArray } = Array;
  const { keys } = Object;
  const tagOf = Function.prototype.call.bind(Object.prototype.toString);
  const later = window.setTimeout.bind(window);
  const clock = performance.now.bind(performance);
  const load = window.fetch.bind(window);
  const pause = (milliseconds) => new Promise((resolve) => later(resolve, milliseconds));

  // --- spelling: any value -> JSON text, and notes of what JSON could not hold ---

  class TooLarge extends Error {}

  const quote = (text) => stringify(text.toWellFormed ? text.toWellFormed() : text);
  const skipped = (value) =>
    value === undefined || typeof value === 'function' || typeof value === 'symbol';
  const wordsOf = (error) => {
    try {
      return String(error?.message ?? error);
    } catch {
      return 'an error that cannot be read';
    }
  };

  function base64(bytes) {
    if (bytes.toBase64) return bytes.toBase64();
    let binary = '';
    for (let at = 0; at < bytes.length; at += 8192)
      binary += String.fromCharCode.apply(null, bytes.subarray(at, at + 8192));
    return btoa(binary);
  }

  function bytesOf(value) {
    if (ArrayBuffer.isView(value))
      return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    return /^\[object (Shared)?ArrayBuffer\]$/.test(tagOf(value)) ? new Uint8Array(value) : null;
  }

  const isFile = (value) => /^\[object (Blob|File)\]$/.test(tagOf(value));

  class Spelling {
    constructor(largest) {
      this.largest = largest;
      this.size = 0;
      this.pieces = [];
      this.blobs = []; // [index of a piece, promise of its text]
      this.above = new Set();
      this.notes = new Set();
    }

    // The text, or a promise of it where files have to be read first.
    text() {
      return this.blobs.length ? this.read() : this.pieces.join('');
    }

    async read() {
      for (const [index, content] of this.blobs) this.pieces[index] = await content;
      return this.pieces.join('');
    }

    put(text) {
      this.grow(text.length);
      this.pieces.push(text);
    }

    grow(size) {
      this.size += size;
      if (this.size > this.largest)
        throw new TooLarge(`it is larger than ${this.largest} characters`);
    }

    odd(text, note) {
      this.notes.add(note);
      this.put(text);
    }

    // `type` is what the object around a value says of its content.
    value(value, depth = 0, type = '') {
      switch (typeof value) {
        case 'string':
          return this.put(quote(value));
        case 'boolean':
          return this.put(String(value));
        case 'bigint':
          return this.put(`"${value}"`);
        case 'number':
          return Number.isFinite(value)
            ? this.put(String(value))
            : this.odd('null', 'numbers that JSON does not have became null');
        case 'object':
          return value === null ? this.put('null') : this.object(value, depth, type);
        default:
          return this.put('null');
      }
    }

    object(value, depth, type) {
      if (this.above.has(value)) return this.odd('"[Circular]"', 'circular references were cut');
      if (depth >= DEEPEST)
        return this.odd('"[Too deep]"', `what is nested more than ${DEEPEST} levels deep was cut`);
      const [pieces, blobs, size] = [this.pieces.length, this.blobs.length, this.size];
      this.above.add(value);
      try {
        this.shape(value, depth + 1, type);
      } catch (error) {
        if (error instanceof TooLarge) throw error;
        [this.pieces.length, this.blobs.length, this.size] = [pieces, blobs, size];
        this.unreadable(error);
      } finally {
        this.above.delete(value);
      }
    }

    shape(value, depth, type) {
      if (isArray(value)) return this.list(value, depth);
      const bytes = bytesOf(value);
      if (bytes) return this.binary(bytes.length, type, () => this.put(base64(bytes)));
      const tag = tagOf(value).slice(8, -1);
      switch (tag) {
        case 'Object':
          break;
        case 'Blob':
        case 'File':
          return this.blob(value, type);
        case 'Map':
          return this.map([...value], depth);
        case 'Set':
          return this.list([...value], depth);
        case 'Date':
          return Number.isNaN(value.getTime())
            ? this.odd('null', 'dates that are no dates became null')
            : this.put(quote(value.toISOString()));
        case 'Number':
        case 'String':
        case 'Boolean':
        case 'BigInt':
          return this.value(value.valueOf(), depth);
        case 'RegExp':
          return this.put(quote(String(value)));
        case 'Error':
        case 'DOMException':
          return this.members({ name: value.name, message: value.message, ...value }, depth);
        default:
          if (tag === 'Window' || typeof value.nodeType === 'number')
            return this.odd(quote(`[${tag}]`), 'objects of the page itself were left out');
      }
      if (typeof value.toJSON === 'function') return this.value(value.toJSON(), depth, type);
      if (tag !== 'Object' && keys(value).length === 0)
        return this.odd(quote(`[${tag}]`), 'objects that hold no data were left out');
      return this.members(value, depth);
    }

    list(items, depth) {
      this.put('[');
      for (let index = 0; index < items.length; index++) {
        if (index) this.put(',');
        this.member(items, index, depth);
      }
      this.put(']');
    }

    map(entries, depth) {
      if (!entries.every(([key]) => typeof key === 'string')) return this.list(entries, depth);
      this.put('{');
      entries.forEach(([key, value], index) => {
        this.put(`${index ? ',' : ''}${quote(key)}:`);
        this.value(value, depth);
      });
      this.put('}');
    }

    members(value, depth) {
      const type = typeof value.mimeType === 'string' ? value.mimeType : '';
      // BinaryData whose content is still binary
      const content = type ? bytesOf(value.content ?? 0) : null;
      const file = type && isFile(value.content) ? value.content : null;
      const binary = content ?? file;
      let first = true;
      this.put('{');
      for (const key of keys(value)) {
        if (binary && (key === 'content' || key === 'encoding')) continue;
        const before = this.pieces.length;
        this.put(`${first ? '' : ','}${quote(key)}:`);
        if (this.member(value, key, depth, type)) first = false;
        else this.pieces.length = before;
      }
      if (binary) {
        const size = 'size' in value ? '' : `"size":${content?.length ?? file.size},`;
        const named = file?.name && !('filename' in value) ? `"filename":${quote(file.name)},` : '';
        this.put(`${first ? '' : ','}"encoding":"base64",${size}${named}"content":"`);
        if (content) this.put(base64(content));
        else this.contentOf(file);
        this.put('"');
      }
      this.put('}');
    }

    // Whether there was anything to spell; in a list, nothing is null.
    member(holder, key, depth, type) {
      let value;
      try {
        value = holder[key];
      } catch (error) {
        this.unreadable(error);
        return true;
      }
      if (skipped(value) && !isArray(holder)) return false;
      this.value(value, depth, type);
      return true;
    }

    unreadable(error) {
      const why = wordsOf(error);
      this.odd(
        quote(`[Unreadable${why.length > 200 ? '' : `: ${why}`}]`),
        'values that could not be read were replaced',
      );
    }

    binary(size, type, content, name = '') {
      this.put('{"content":"');
      content();
      this.put(
        `","mimeType":${quote(type || 'application/octet-stream')}` +
          `,"encoding":"base64","size":${size}`,
      );
      this.put(name ? `,"filename":${quote(name)}}` : '}');
    }

    blob(blob, type) {
      this.binary(blob.size, blob.type || type, () => this.contentOf(blob), blob.name);
    }

    contentOf(blob) {
      this.grow(Math.ceil(blob.size / 3) * 4);
      const content = blob.arrayBuffer().then((buffer) => base64(new Uint8Array(buffer)));
      const index = this.pieces.push('') - 1;
      this.blobs.push([
        index,
        content.catch(() => (this.notes.add('a file could not be read and is empty'), '')),
      ]);
    }
  }

  function spelling(value, largest) {
    const spelled = new Spelling(largest);
    spelled.value(value);
    return spelled;
  }

  // --- the app asks and tells ---

  const queue = []; // [kind, text or the promise of it]
  let sending = null;
  let lines = 0; // of the console that are in the queue

  // In the order told, one batch under way at a time: a page that tells faster than it is heard
  // waits here, not in the bridge.
  function send(kind, value) {
    try {
      queue.push([kind, spelling(value, LARGEST_MESSAGE).text()]);
    } catch (error) {
      const lost = {
        event: 'notifications/error',
        data: {
          code: 'TRANSPORT_ERROR',
          message: `what the app told was dropped: ${wordsOf(error)}`,
        },
      };
      queue.push(['notice', stringify(lost)]);
    }
    sending ??= drain();
    return sending;
  }

  async function drain() {
    await null;
    try {
      while (queue.length) {
        const batch = [];
        let size = 0;
        while (queue.length && batch.length < BATCH && size < SLICE) {
          const [kind, spelled] = queue.shift();
          if (kind === 'console') lines -= 1;
          const text = await spelled;
          size += text.length;
          batch.push(`["${kind}",${text}]`);
        }
        await post('tell', `[${batch.join(',')}]`);
        if (!queue.length && lostLines) line('warning', 'it had more than could be sent', '');
      }
    } catch {
      queue.length = lines = 0; // the bridge is gone
    }
    sending = null;
  }

  let questions = 0; // asked so far: each has its number

  // A request may have a `signal`, which is aborted when nobody waits for its answer any more.
  async function ask(request) {
    let text;
    let signal;
    try {
      text = await spelling(request, LARGEST_MESSAGE).text();
      signal = request?.signal instanceof AbortSignal ? request.signal : null;
    } catch (error) {
      return refusal('INVALID_PARAMS', `The request cannot be sent: ${wordsOf(error)}`);
    }
    try {
      await sending; // what it told before it asked arrives before
      const id = String(++questions);
      const answer = post('ask', text, id);
      const withdraw = () => post('withdraw', id).catch(() => {});
      if (signal?.aborted) withdraw();
      signal?.addEventListener('abort', withdraw);
      return await answer;
    } catch {
      return refusal('DISCONNECTED', 'The bridge is gone.');
    }
  }

  const refusal = (code, message) => ({
    success: false,
    error: { code, message, retryable: false },
  });
  const tell = (notice, data) =>
    send('notice', typeof notice === 'string' ? { event: notice, data } : notice);
  const progress = (report) => send('progress', report);
  const changed = (changes) =>
    send('notice', { event: 'notifications/capabilities/list_changed', data: changes });

  // message -> what became of it each time, and how often each name has brought it
  const heard = new WeakMap();

  // An app that uses several names brings one message by each. The nth time by one name is the nth
  // time by another.
  function once(message, name, act) {
    if (message === null || typeof message !== 'object') return act();
    if (!heard.has(message)) heard.set(message, { outcomes: [], times: new Map() });
    const { outcomes, times } = heard.get(message);
    const time = times.get(name) ?? 0;
    times.set(name, time + 1);
    if (time === outcomes.length) outcomes.push(act());
    return outcomes[time];
  }

  const ours = new WeakSet();

  function callback(name, act) {
    const called = (message, ...more) => once(message, name, () => act(message, ...more));
    ours.add(called);
    return called;
  }

  const CALLBACKS = {
    __abp_elicitation: ask,
    __abpOnElicitation: ask,
    __abp_notification: tell,
    __abp_notify: tell,
    __abpOnNotification: tell,
    __abp_progress: progress,
    __abpOnProgress: progress,
    __abp_capabilities_changed: changed,
    __abpOnCapabilitiesChanged: changed,
  };
  const HOOKS = {
    onElicitation: ask,
    onNotification: tell,
    onProgress: progress,
    onCapabilitiesChanged: changed,
  };

  for (const [name, act] of Object.entries(CALLBACKS)) {
    Object.defineProperty(window, name, {
      value: callback(name, act),
      writable: true,
      configurable: true,
    });
  }

  function attach(abp) {
    for (const [name, act] of Object.entries(HOOKS)) {
      try {
        const theirs = abp[name];
        if (typeof theirs !== 'function') abp[name] = callback(name, act);
        else if (!ours.has(theirs))
          Promise.resolve(theirs.call(abp, callback(name, act))).catch(() => {});
      } catch {
        // An app that takes no handler here has the global names.
      }
    }
  }

  // --- what its console says ---

  const MOST_LINES = 50; // that wait: a page that logs in a loop must not fill the bridge
  const LONGEST_LINE = 1 << 16; // page.py shows less of it, after it has looked there for secrets
  let lostLines = 0;

  // Where in a script of the page's: this one has no address.
  const placeOf = (error) => {
    try {
      return (
        /(?:https?|chrome-extension):\/\/[^\s()]+:\d+:\d+/.exec(String(error.stack))?.[0] ?? ''
      );
    } catch {
      return '';
    }
  };

  function line(level, message, at) {
    if (lines >= MOST_LINES) return (lostLines += 1);
    lines += 1;
    send('console', {
      level,
      message: message.slice(0, LONGEST_LINE),
      cut: Math.max(0, message.length - LONGEST_LINE),
      at,
      lost: lostLines,
    });
    lostLines = 0;
  }

  function shown(value) {
    if (typeof value === 'string') return value;
    try {
      if (value instanceof Error) return `${value.name}: ${value.message}`;
      const text = spelling(value, LONGEST_LINE).text();
      return typeof text === 'string' ? text : '[a file]';
    } catch {
      return '[too large to show]';
    }
  }

  for (const [name, level] of [
    ['error', 'error'],
    ['warn', 'warning'],
  ]) {
    const said = console[name].bind(console);
    console[name] = (...words) => {
      said(...words);
      if (lines >= MOST_LINES) return void (lostLines += 1);
      const thrown = words.find((each) => each instanceof Error);
      line(level, words.map(shown).join(' '), placeOf(thrown ?? new Error()));
    };
  }

  window.addEventListener('error', ({ message, filename, lineno, colno }) => {
    if (message) line('error', message, filename ? `${filename}:${lineno}:${colno}` : '');
  });
  window.addEventListener('unhandledrejection', ({ reason }) =>
    line('error', `Uncaught (in promise) ${shown(reason)}`, placeOf(reason)),
  );
  window.addEventListener(
    'securitypolicyviolation',
    ({ effectiveDirective, blockedURI, sourceFile, lineNumber, columnNumber }) => {
      const at = sourceFile ? `${sourceFile}:${lineNumber}:${columnNumber}` : '';
      line(
        'error',
        `its Content-Security-Policy (${effectiveDirective}) blocked ${blockedURI.split('?')[0]}`,
        at,
      );
    },
  );

  // --- files that it gives by itself ---

  // There is no printer here: page.py makes a PDF for the call that runs.
  Object.defineProperty(window, 'print', {
    value: () => void send('print', document.title),
    writable: true,
    configurable: true,
  });

  // Where it goes during a call may be a download, and then the page stays: the result waits until
  // that is known.
  const going = (url) => running.size && send('going', url);
  window.navigation?.addEventListener(
    'navigate',
    ({ destination, downloadRequest, hashChange }) => {
      const { url, sameDocument } = destination;
      if (!hashChange && !sameDocument && (downloadRequest !== null || /^https?:/.test(url)))
        going(url);
    },
  );
  const open = window.open.bind(window);
  Object.defineProperty(window, 'open', {
    value: (...given) => (going('a window'), open(...given)),
    writable: true,
    configurable: true,
  });

  // With the page's own cookies and by its rules: what another origin does not allow it is not had.
  // The app's `auth` goes to its own origin only.
  async function download({ url, address, headers, largest, patience }, given) {
    const own = new URL(url, document.baseURI).origin === window.origin;
    const answer = await load(own ? address : url, {
      headers: own ? headers : {},
      signal: AbortSignal.any([AbortSignal.timeout(patience), given]),
    });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const pieces = [];
    let size = 0;
    for (const reader = answer.body.getReader(); ;) {
      const { done, value } = await reader.read();
      if (done) return new Blob(pieces, { type: answer.headers.get('content-type') ?? '' });
      size += value.length;
      if (size > largest) {
        reader.cancel().catch(() => {});
        throw new Error(`it is larger than ${largest} bytes`);
      }
      pieces.push(value);
    }
  }

  // --- the bridge calls ---

  const running = new Map(); // call -> AbortController
  const fetching = new Map(); // download -> AbortController
  const unwanted = new Set(); // calls whose result nobody waits for any more
  const rest = new Map(); // key -> [text, where it goes on]

  // [text, whether that is all]; `next` has the rest.
  async function deliver(key, act) {
    const text = await outcome(act);
    await sending; // what the app told before it was done arrives before
    if (unwanted.delete(key)) return ['', true];
    rest.set(key, [text, 0]);
    return next(key);
  }

  function next(key) {
    const [text, from] = rest.get(key) ?? ['', 0];
    let to = Math.min(from + SLICE, text.length);
    if (to < text.length && (text.charCodeAt(to - 1) & 0xfc00) === 0xd800) to -= 1;
    const last = to === text.length;
    if (last) rest.delete(key);
    else rest.set(key, [text, to]);
    return [text.slice(from, to), last];
  }

  async function outcome(act) {
    try {
      return await told('value', await act());
    } catch (error) {
      if (error instanceof TooLarge)
        return told('thrown', { message: `the result cannot be carried: ${error.message}` });
      const at = placeOf(error);
      return told('thrown', error, at).catch(() => told('thrown', { message: wordsOf(error) }, at));
    }
  }

  async function told(kind, value, at = '') {
    const spelled = spelling(value, LARGEST_RESULT);
    const text = await spelled.text();
    return `{"${kind}":${text},"at":${quote(at)},"notes":${stringify([...spelled.notes])}}`;
  }

  async function attempt(form) {
    return Promise.race([(async () => form())().catch(() => undefined), pause(CANCEL_PATIENCE)]);
  }

  const desk = {
    // Empty when the app can be initialised, else why it cannot.
    async ready(patience) {
      for (const end = clock() + patience; ; await pause(20)) {
        const abp = window.abp;
        if (typeof abp?.initialize === 'function') return '';
        if (clock() >= end)
          return abp ? 'window.abp has no initialize()' : 'window.abp not found after page load';
      }
    },

    initialize: (key, params) =>
      deliver(key, async () => {
        const opened = await window.abp.initialize(parse(params));
        attach(window.abp);
        return opened;
      }),

    call: (key, capability, params) =>
      deliver(key, async () => {
        const controller = new AbortController();
        running.set(key, controller);
        try {
          return await window.abp.call(capability, parse(params), {
            callId: key,
            progressToken: key,
            signal: controller.signal,
          });
        } finally {
          running.delete(key);
        }
      }),

    // X6: each form that ABP's documents have, until one is answered as ABP says. X7: the signal,
    // too.
    async cancel(key, reason) {
      rest.delete(key);
      const controller = running.get(key);
      if (controller) unwanted.add(key);
      const answered = (answer) => answer?.callId === key && typeof answer.cancelled === 'boolean';
      const first = attempt(() => window.abp.cancel(key, reason));
      controller?.abort(new DOMException(reason, 'AbortError'));
      if (answered(await first)) return;
      if (answered(await attempt(() => window.abp.cancel({ callId: key, reason })))) return;
      await attempt(() => window.__abp_cancel(key, reason));
    },

    capabilities: (key) =>
      deliver(key, async () =>
        typeof window.abp.listCapabilities === 'function' ? window.abp.listCapabilities() : [],
      ),

    download: (key, given) =>
      deliver(key, async () => {
        const controller = new AbortController();
        fetching.set(key, controller);
        try {
          return await download(parse(given), controller.signal);
        } finally {
          fetching.delete(key);
        }
      }),

    abandon(key) {
      rest.delete(key);
      if (fetching.has(key)) unwanted.add(key);
      fetching.get(key)?.abort();
    },

    shutdown: (key, reason) => deliver(key, async () => window.abp.shutdown({ reason })),

    next,

    forever: new Promise(() => {}), // ends only with the page
  };

  Object.defineProperty(window, '__abpBridge', { value: Object.freeze(desk) });
})();
