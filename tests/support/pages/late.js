// A bootstrap script: after a while a proxy that queues, and only then the app itself.
'use strict';

const app = new Promise((resolve) =>
  setTimeout(resolve, 300, {
    initialize: async () => ({
      sessionId: 'late',
      protocolVersion: '0.1',
      app: { id: 'late', name: 'Late' },
      capabilities: [{ name: 'run' }],
    }),
    shutdown: async () => {},
    onElicitation: null,
    call: async () => ({
      success: true,
      data: (
        await window.abp.onElicitation({
          method: 'elicitation/confirm',
          params: { message: 'Sure?' },
        })
      ).data,
    }),
  }),
);

app.then((real) => (window.abp = real));
setTimeout(() => {
  const later =
    (name) =>
    async (...given) =>
      (await app)[name](...given);
  window.abp = {
    initialize: later('initialize'),
    shutdown: later('shutdown'),
    call: later('call'),
  };
}, 150);
