// The apps of a bridge as one app of a page: `window.abp`, each word of which goes over a WebSocket
// to the bridge that served this page, and, where another page shows this one, ABP's envelopes by
// postMessage.
(() => {
  'use strict';

  const address = `ws://${location.host}/abp${location.search}`; // with its token
  const failure = (code, message, retryable = false) => ({
    success: false,
    error: { code, message, retryable },
  });
  const gone = () =>
    failure('DISCONNECTED', 'The bridge is gone, or has ended this session.', true);

  const connect = () =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(address);
      socket.addEventListener('open', () => resolve(socket));
      socket.addEventListener('close', () =>
        reject(
          new Error(
            'The bridge lets nobody in: this page needs the whole address that it wrote to its' +
              ' stderr, with the token.',
          ),
        ),
      );
    });

  function show(words) {
    const state = document.getElementById('state');
    if (state) state.textContent = words;
  }

  // --- the agent's hooks, by the names that ABP's documents have for them (X1, X2, X4): the first 

  const HOOKS = {
    ask: ['__abp_elicitation', '__abpOnElicitation', 'onElicitation'],
    tell: ['__abp_notification', '__abpOnNotification', 'onNotification'],
    change: ['__abp_capabilities_changed', '__abpOnCapabilitiesChanged', 'onCapabilitiesChanged'],
    progress: ['__abp_progress', '__abpOnProgress', 'onProgress'],
  };

  function hook(kind) {
    for (const name of HOOKS[kind]) {
      const found = window[name] ?? abp[name];
      if (typeof found === 'function') return found;
    }
    return null;
  }

  function tell(method, params) {
    const [listener, told] =
      method === 'notifications/progress'
        ? [hook('progress'), params]
        : hook('tell')
          ? [hook('tell'), { event: method, data: params }]
          : method === 'notifications/capabilities/list_changed'
            ? [hook('change'), params]
            : [];
    try {
      Promise.resolve(listener?.(told)).catch(() => {});
    } catch {
      // Whoever listens fails for itself.
    }
  }

  // ABP has no word for a question that is withdrawn: its request has a `signal`, which no JSON of
  // it shows.
  async function ask(method, { timeout, ...params }, signal) {
    const listener = hook('ask');
    if (!listener) return failure('NOT_SUPPORTED', 'No agent on this page listens to questions.');
    try {
      const request = { method, params, ...(timeout === undefined ? {} : { timeout }) };
      const response = await listener(Object.defineProperty(request, 'signal', { value: signal }));
      return response ?? failure('ELICITATION_FAILED', 'The agent on this page gave no answer.');
    } catch (error) {
      return failure('ELICITATION_FAILED', String(error?.message ?? error));
    }
  }

  // --- one session, in the JSON-RPC binding ---

  class Session {
    constructor(socket) {
      this.socket = socket;
      this.waiting = new Map(); // id -> what takes the response
      this.asked = new Map(); // id of the bridge's -> what aborts the question
      this.serial = 0;
      socket.addEventListener('message', ({ data }) => this.take(JSON.parse(data)));
      socket.addEventListener('close', () => this.end());
    }

    send(message) {
      if (this.socket.readyState === WebSocket.OPEN)
        this.socket.send(JSON.stringify({ jsonrpc: '2.0', ...message }));
    }

    request(method, params) {
      if (this.socket.readyState !== WebSocket.OPEN) return Promise.resolve(gone());
      const id = ++this.serial;
      return new Promise((resolve) => {
        this.waiting.set(id, resolve);
        this.send({ id, method, params });
      });
    }

    async take({ id, method, params, result, error }) {
      if (method !== undefined) {
        if (id !== undefined) await this.answer(id, method, params ?? {});
        else if (method === 'notifications/elicitation/withdrawn')
          this.asked.get(params.requestId)?.abort();
        else tell(method, params ?? {});
        return;
      }
      this.waiting.get(id)?.(error ? failure('INVALID_PARAMS', error.message) : result);
      this.waiting.delete(id);
    }

    async answer(id, method, params) {
      const controller = new AbortController();
      this.asked.set(id, controller);
      const result = await ask(method, params, controller.signal);
      this.asked.delete(id);
      if (!controller.signal.aborted) this.send({ id, result });
    }

    // The browser says that a socket is closed some time after it was told to close it.
    end() {
      this.socket.close();
      for (const controller of this.asked.values()) controller.abort();
      for (const resolve of this.waiting.values()) resolve(gone());
      this.waiting.clear();
      if (session === this) {
        session = null;
        show('No agent is connected.');
      }
    }
  }

  let session = null;
  const inSession = (method, params) =>
    session?.request(method, params) ??
    Promise.resolve(failure('NOT_INITIALIZED', 'Call initialize() first.', true));

  const abp = {
    protocolVersion: '0.1',
    onElicitation: undefined,
    onNotification: undefined,
    onProgress: undefined,
    onCapabilitiesChanged: undefined,

    async initialize(params) {
      session?.end();
      const begun = new Session(await connect());
      session = begun;
      const opened = await begun.request('initialize', params);
      if (opened?.success === false) begun.end();
      else show(`Connected to ${params?.agent?.name ?? 'an agent'}.`);
      return opened;
    },

    async shutdown(params = {}) {
      const ended = session;
      await inSession('shutdown', params);
      ended?.end();
    },

    listCapabilities: () => inSession('capabilities/list', {}),

    call(capability, params = {}, { signal, callId = crypto.randomUUID(), ...options } = {}) {
      signal?.addEventListener('abort', () =>
        abp.cancel(callId, String(signal.reason?.message ?? signal.reason)),
      );
      return inSession('capabilities/call', {
        capability,
        params,
        options: { ...options, callId },
      });
    },

    cancel: (callId, reason) =>
      inSession('capabilities/cancel', typeof callId === 'object' ? callId : { callId, reason }),
  };

  Object.defineProperty(window, 'abp', { value: abp });

  // --- in a page that shows this one, if its origin is one of those that the bridge was given ---

  const allowed = document.documentElement.dataset.origins.split(' ').filter(Boolean);
  let relay = null; // the promise of a socket

  async function pass(data, origin) {
    relay ??= connect().then((socket) => {
      socket.addEventListener('message', (event) =>
        window.parent.postMessage(JSON.parse(event.data), origin),
      );
      socket.addEventListener('close', () => report(gone().error, origin));
      return socket;
    });
    try {
      (await relay).send(JSON.stringify(data));
    } catch (error) {
      report({ code: 'TRANSPORT_ERROR', message: error.message }, origin);
    }
  }

  function report(data, origin) {
    relay = null;
    window.parent.postMessage(
      { type: 'notification', payload: { event: 'notifications/error', data } },
      origin,
    );
  }

  window.addEventListener('message', ({ source, origin, data }) => {
    if (
      window.parent !== window &&
      source === window.parent &&
      allowed.includes(origin) &&
      typeof data?.type === 'string'
    )
      pass(data, origin);
  });
})();
