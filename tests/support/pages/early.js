// An app that takes the callback when its script loads, and asks at once.
'use strict';

const ask = window.__abp_elicitation;
const answer = ask({ method: 'elicitation/confirm', params: { message: 'At once?' } });

window.abp = {
  initialize: async () => ({
    sessionId: 's',
    protocolVersion: '0.1',
    app: { id: 'early', name: 'Early' },
    capabilities: [{ name: 'run' }],
  }),
  shutdown: async () => {},
  call: async () => ({ success: true, data: (await answer).data }),
};
