// A program written for OpenCode's questions, with its published SDK: commands on stdin, what comes back on stdout, one JSON object a line.
//
//   node opencode_client.mjs CLIENT URL      (the password is in OPENCODE_SERVER_PASSWORD)
//
// CLIENT is the SDK's module. `{"call": "list" | "reply" | "reject", "parameters": {...}}` is answered with `{data, error, status}`, and each event is
// told as `{event}`.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const [module, baseUrl] = process.argv.slice(2);
const { createOpencodeClient } = await import(pathToFileURL(module).href);

const send = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);
const password = Buffer.from(`opencode:${process.env.OPENCODE_SERVER_PASSWORD}`).toString("base64");
const client = createOpencodeClient({ baseUrl, directory: "/somewhere", headers: { Authorization: `Basic ${password}` } });

const ended = new AbortController();
const { stream } = await client.event.subscribe({}, { signal: ended.signal });
const listening = (async () => {
  for await (const event of stream) send({ event });
})();

for await (const line of createInterface({ input: process.stdin })) {
  const { call, parameters } = JSON.parse(line);
  const { data, error, response } = await client.question[call](parameters);
  send({ data, error, status: response.status });
}
ended.abort();
await listening;
