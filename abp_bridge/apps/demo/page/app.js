// The built-in app as a page, and an example of how to write one: everything that an agent's bridge
// needs of a page is `window.abp` and a manifest.
//
// Plays `script.json`, as `__main__.py` does without a browser.

const script = await (await fetch('script.json')).json();
const offered = new Map(
  script.capabilities.filter((each) => !each.hidden).map((each) => [each.name, each]),
);
const calls = new Map(); // callId -> AbortController of each call that is running
let session = null;

class Failed extends Error {
  constructor(error) {
    super(error.message);
    this.error = error;
  }
}

window.abp = {
  protocolVersion: '0.1',
  app: script.app,

  async initialize({ agent }) {
    session = crypto.randomUUID();
    show('agent', `Connected to ${agent.name} ${agent.version}.`);
    const features = {
      notifications: true,
      progress: true,
      elicitation: true,
      dynamicCapabilities: true,
    };
    return {
      sessionId: session,
      protocolVersion: '0.1',
      app: script.app,
      capabilities: capabilities(),
      features,
    };
  },

  async shutdown() {
    session = null;
    show('agent', 'No agent is connected.');
  },

  async listCapabilities() {
    return capabilities();
  },

  async call(
    name,
    params = {},
    { callId = crypto.randomUUID(), progressToken = callId, signal } = {},
  ) {
    if (session === null)
      return {
        success: false,
        error: { code: 'NOT_INITIALIZED', message: 'Call initialize() first', retryable: true },
      };
    const controller = new AbortController();
    signal?.addEventListener('abort', () => controller.abort());
    calls.set(callId, controller);
    log('called', `${name} ${brief(params)}`);
    try {
      const capability = offered.get(name);
      if (!capability)
        throw new Failed({ code: 'UNKNOWN_CAPABILITY', message: `no ${name}`, retryable: false });
      const data = await play(capability.steps, params, progressToken, controller.signal);
      log('called', `${name} returned ${brief(data)}`);
      return { success: true, data };
    } catch (failure) {
      const cancelled = controller.signal.aborted;
      if (!cancelled && !(failure instanceof Failed)) throw failure;
      const error = cancelled
        ? { code: 'CANCELLED', message: 'The call was cancelled', retryable: false }
        : failure.error;
      log('failed', `${name}: ${error.message}`);
      return { success: false, cancelled, error };
    } finally {
      calls.delete(callId);
    }
  },

  async cancel(callId) {
    const controller = calls.get(callId);
    controller?.abort();
    return { callId, cancelled: controller !== undefined };
  },
};

function capabilities() {
  return [...offered.values()].map(({ name, description, inputSchema }) => ({
    name,
    description,
    inputSchema,
    available: true,
  }));
}

// --- the script ----------------------------------------------------------------------------------

// Runs `steps`. `$name.member` in a step stands for an earlier answer or a parameter; the data is
// what `return` says, or all answers.
async function play(steps, params, progressToken, signal) {
  const known = { params };
  for (const step of steps) {
    signal.throwIfAborted();
    if (step.ask) known[step.as] = await until(signal, ask(filled(step.ask, known)));
    else if (step.askAll)
      known[step.as] = await until(signal, Promise.all(filled(step.askAll, known).map(ask)));
    else if (step.askEach)
      known[step.as] = await askEach(filled(step.askEach, known), signal, progressToken);
    else if (step.tell) tell(filled(step.tell, known), filled(step.times, known) ?? 1);
    else if (step.progress) report({ ...step.progress, progressToken });
    else if (step.offer) offer(step.offer);
    else if (step.wait)
      await until(signal, new Promise((resolve) => setTimeout(resolve, step.wait)));
    else if (step.hold) await until(signal, new Promise(() => {}));
    else if (step.leave) location.assign('about:blank');
    else if (step.fail) throw new Failed(step.fail);
    else if ('return' in step) return filled(step.return, known);
  }
  const { params: _, ...answers } = known;
  return Object.fromEntries(
    Object.entries(answers).map(([name, answer]) => [name, answer.data ?? answer.error]),
  );
}

// Asking may take as long as a person does. Without a bridge there is nobody to ask.
async function ask(request) {
  const question =
    request.params?.prompt ?? request.params?.message ?? request.params?.task ?? request.method;
  const entry = log('asked', question, request.method);
  const unheard = {
    success: false,
    error: { code: 'NOT_SUPPORTED', message: 'No bridge is listening', retryable: false },
  };
  const response = window.__abp_elicitation ? await window.__abp_elicitation(request) : unheard;
  // what a person typed may be a secret, and pages are printed
  const { confirmed, selected } = response.data ?? {};
  const answer = selected ?? { true: 'Yes', false: 'No' }[confirmed] ?? 'Answered';
  entry.querySelector('small').textContent = response.success
    ? String(answer)
    : `Not answered: ${response.error?.message}`;
  return response;
}

async function askEach(requests, signal, progressToken) {
  const responses = [];
  for (const request of requests) {
    responses.push(await until(signal, ask(request)));
    report({ progress: responses.length, total: requests.length, progressToken });
  }
  return responses;
}

function tell(notification, times) {
  log(
    'told',
    `${notification.event} ${brief(notification.data)}`,
    times > 1 ? `${times} times` : '',
  );
  for (let time = 0; time < times; time++)
    window.__abp_notification?.({ event: notification.event, data: notification.data ?? {} });
}

function report(progress) {
  const bar = document.getElementById('progress');
  bar.hidden = false;
  bar.value =
    progress.percentage === undefined
      ? progress.progress / (progress.total ?? 1)
      : progress.percentage / 100;
  show('status', progress.status ?? '');
  window.__abp_progress?.(progress);
}

function offer(name) {
  offered.set(
    name,
    script.capabilities.find((each) => each.name === name),
  );
  list();
}

function filled(template, known) {
  if (typeof template === 'string' && template.startsWith('$')) {
    return template
      .slice(1)
      .split('.')
      .reduce((value, word) => value?.[word], known);
  }
  if (template === null || typeof template !== 'object' || Array.isArray(template)) return template;
  return Object.fromEntries(
    Object.entries(template).map(([name, value]) => [name, filled(value, known)]),
  );
}

// What `work` gives, unless `signal` says first that nobody waits for it.
function until(signal, work) {
  const aborted = new Promise((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), { once: true }),
  );
  return Promise.race([work, aborted]);
}

// --- the page ------------------------------------------------------------------------------------

const LONGEST_LOG = 200;

function show(id, words) {
  document.getElementById(id).textContent = words;
}

function log(kind, words, note = '') {
  const entry = document.createElement('li');
  entry.className = kind;
  const small = document.createElement('small');
  small.textContent = note;
  entry.append(words, small);
  const entries = document.getElementById('log');
  entries.append(entry);
  while (entries.children.length > LONGEST_LOG) entries.firstChild.remove();
  return entry;
}

function list() {
  const entries = capabilities().map(({ name, description }) => {
    const entry = document.createElement('li');
    const strong = document.createElement('strong');
    strong.textContent = name;
    entry.append(strong, description);
    return entry;
  });
  document.getElementById('capabilities').replaceChildren(...entries);
}

function brief(value) {
  const words = JSON.stringify(value) ?? '';
  return words.length > 200 ? `${words.slice(0, 200)} …` : words;
}

list();
