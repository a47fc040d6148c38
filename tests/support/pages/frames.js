// An app with a frame of its own origin and one of another. What the frames find and get is told to
// this page, which returns it.
'use strict';

const heard = new Promise((resolve) => {
  const found = {};
  addEventListener('message', ({ origin, data }) => {
    found[origin] = data;
    if (Object.keys(found).length === 2) resolve(found);
  });
});

window.abp = {
  initialize: async () => ({
    sessionId: 's',
    protocolVersion: '0.1',
    app: { id: 'frames', name: 'Frames' },
    capabilities: [{ name: 'run' }],
  }),
  shutdown: async () => {},
  call: async () => {
    const other = location.hostname === 'localhost' ? '127.0.0.1' : 'localhost';
    for (const host of [location.hostname, other]) {
      const frame = document.createElement('iframe');
      frame.src = `http://${host}:${location.port}/frame.html`;
      document.body.append(frame);
    }
    const found = await heard;
    return {
      success: true,
      data: Object.fromEntries(
        Object.entries(found).map(([origin, data]) => [new URL(origin).hostname, data]),
      ),
    };
  },
};
