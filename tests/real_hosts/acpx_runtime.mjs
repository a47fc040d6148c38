// acpx as a library (acpx/runtime), spoken to as the other hosts are: JSON-RPC on stdin and stdout, one message a line.
//
//   node acpx_runtime.mjs PACKAGE STATE forms|buttons COMMAND ARG...
//
// COMMAND is the agent of its one session. `prompt {text}` is a turn, with {status, text} for a result; `cancel` cancels it. What acpx is asked comes
// out as it stood on the wire, and is answered in acpx's words: `elicitation/create` with an action, `session/request_permission` with {outcome: KIND}.
// `withdrawn` tells that acpx itself took a question back. The agent is given the MCP servers that MCP_SERVERS has, as ACP has them.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [acpx, stateDir, asked, ...command] = process.argv.slice(2);
const { createAcpRuntime, createRuntimeStore } = await import(pathToFileURL(`${acpx}/dist/runtime.js`).href);

const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);

const waiting = new Map();
let serial = 0;

// Asks whoever launched us; a question that acpx takes back is answered with `gone`.
function ask(method, params, signal, gone) {
  const id = ++serial;
  send({ id, method, params });
  return new Promise((resolve) => {
    waiting.set(id, resolve);
    signal.addEventListener("abort", () => {
      if (waiting.delete(id)) send({ method: "withdrawn", params: {} });
      resolve(gone);
    });
  });
}

const runtime = createAcpRuntime({
  cwd: process.cwd(),
  sessionStore: createRuntimeStore({ stateDir }),
  agentRegistry: { resolve: () => command, list: () => ["agent"] },
  permissionMode: "deny-all",
  mcpServers: JSON.parse(process.env.MCP_SERVERS ?? "[]"),
  elicitationModes: asked === "forms" ? ["form", "url"] : [],
  onPermissionRequest: (request, { signal }) => ask("session/request_permission", request.raw, signal, { outcome: "cancel" }),
});
const session = runtime.ensureSession({ sessionKey: "session", agent: "agent", mode: "persistent", cwd: process.cwd() });

let turn;

async function prompt(text, requestId) {
  const onElicitation = (request, { signal }) => ask("elicitation/create", request, signal, { action: "cancel" });
  turn = runtime.startTurn({ handle: await session, text, mode: "prompt", requestId, ...(asked === "forms" && { onElicitation }) });
  let said = "";
  for await (const event of turn.events) if (event.type === "text_delta" && event.stream !== "thought") said += event.text;
  const { status, error } = await turn.result;
  if (error) throw new Error(error.message);
  return { status, text: said };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params, result } = JSON.parse(line);
  if (method === "prompt") {
    prompt(params.text, `${id}`).then(
      (result) => send({ id, result }),
      (error) => send({ id, error: { code: -32603, message: `${error}` } }),
    );
  } else if (method === "cancel") {
    await turn.cancel();
  } else {
    waiting.get(id)?.(result);
    waiting.delete(id);
  }
}
await runtime.shutdown();
process.exit(0);
