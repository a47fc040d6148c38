// A frame that tries every way to speak for the app around it.
'use strict';

(async () => {
  const names = Object.getOwnPropertyNames(window).filter((name) => /abp/i.test(name));
  const request = JSON.stringify({ method: 'elicitation/confirm', params: { message: 'From a frame?' } });
  const answers = {};
  for (const name of names) answers[name] = await window[name]('ask', request);
  for (const name of names) await window[name]('tell', '[["notice",{"event":"from a frame"}],["progress",{"progress":1}]]');
  parent.postMessage({ answers, confirmed: confirm('From a frame?') }, '*');
})();
