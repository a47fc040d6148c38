// An app that takes its handlers through methods, and brings every message by all of them.
'use strict';

const handlers = {};

window.abp = {
  initialize: async () => ({
    sessionId: 's',
    protocolVersion: '1.0',
    app: { id: 'hooks', name: 'Hooks' },
    capabilities: [{ name: 'run' }],
  }),
  shutdown: async () => {},
  onElicitation: (handler) => void (handlers.ask = handler),
  onNotification: (handler) => void (handlers.tell = handler),
  onProgress: (handler) => void (handlers.progress = handler),
  onCapabilitiesChanged: (handler) => void (handlers.changed = handler),
  call: async () => {
    handlers.tell({ method: 'notifications/state/changed', params: { field: 'a', newValue: 1 } });
    handlers.progress({ percentage: 50 });
    handlers.changed({ added: ['more'] });
    const request = { method: 'elicitation/confirm', params: { message: 'Sure?' } };
    const answers = await Promise.all([
      handlers.ask(request),
      window.__abp_elicitation(request),
      window.__abpOnElicitation(request),
    ]);
    return { success: true, data: answers.map((answer) => answer.data.confirmed) };
  },
};
