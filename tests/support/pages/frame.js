// A frame that tries every way to speak for the app around it.
'use strict';

(async () => {
  const names = Object.getOwnPropertyNames(window).filter((name) => /abp/i.test(name));
  const request = JSON.stringify({
    method: 'elicitation/confirm',
    params: { message: 'From a frame?' },
  });
  const answers = {};
  const told =
    '[["console",{"message":"x"}],["notice",{"event":"from a frame"}],["progress",{"progress":1}]]';
  for (const name of names) {
    const post = window[name];
    // One asks and tells, one only tells.
    answers[name] =
      location.hostname === 'localhost' ? await post('tell', told) : await post('ask', request);
    await post('tell', told);
  }
  parent.postMessage({ answers, confirmed: confirm('From a frame?') }, '*');
})();
