// A MongoDB on a loopback port for as long as its stdin is open, which says yes to everything and
// does nothing: `node mongo.mjs MODULES`. It prints its port, and then the name of each command.
import { createRequire } from "node:module";
import { createServer } from "node:net";

const { serialize, deserialize } = createRequire(`${process.argv[2]}/`)("bson");
const OP_REPLY = 1, OP_QUERY = 2004, OP_MSG = 2013;
const HELLO = {
  isWritablePrimary: true, ismaster: true, helloOk: true, minWireVersion: 0, maxWireVersion: 21,
  maxBsonObjectSize: 2 ** 24, maxMessageSizeBytes: 48_000_000, maxWriteBatchSize: 100_000,
  logicalSessionTimeoutMinutes: 30, readOnly: false, version: "7.0.0", ok: 1,
};

function header(length, answered, operation) {
  const bytes = Buffer.alloc(16);
  [16 + length, 0, answered, operation].forEach((each, place) => bytes.writeInt32LE(each, 4 * place));
  return bytes;
}

function answer(message) {
  const [id, operation] = [message.readInt32LE(4), message.readInt32LE(12)];
  const start = operation === OP_QUERY ? message.indexOf(0, 20) + 1 + 8 : 16 + 4 + 1;
  const asked = deserialize(message.subarray(start, start + message.readInt32LE(start)));
  console.log(Object.keys(asked)[0]);
  const document = serialize(HELLO);
  const before = operation === OP_QUERY ? Buffer.alloc(20) : Buffer.alloc(5);
  if (operation === OP_QUERY) before.writeInt32LE(1, 16);
  const length = before.length + document.length;
  const kind = operation === OP_QUERY ? OP_REPLY : OP_MSG;
  return Buffer.concat([header(length, id, kind), before, document]);
}

const server = createServer((socket) => {
  let read = Buffer.alloc(0);
  socket.on("error", () => socket.destroy());
  socket.on("data", (data) => {
    read = Buffer.concat([read, data]);
    while (read.length >= 16 && read.length >= read.readInt32LE(0)) {
      const message = read.subarray(0, read.readInt32LE(0));
      read = read.subarray(message.length);
      socket.write(answer(message));
    }
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("end", () => process.exit(0)).resume();
