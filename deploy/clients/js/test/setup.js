// What the tests share. They run against a real node, whose URL is in
// HOLDFAST_TEST_URL; each test has a queue of its own.
import { once } from "node:events";
import http from "node:http";
import net from "node:net";

export const url = process.env.HOLDFAST_TEST_URL ?? "http://127.0.0.1:7780";

let queues = 0;

/** A queue that no other test has. */
export function newQueue() {
  return `js-${process.pid}-${Date.now()}-${queues++}`;
}

/** A server that answers as f says, until the test ends: {status, headers, body}. */
export async function fake(t, f) {
  const server = http.createServer(async (req, res) => {
    let text = "";
    for await (const chunk of req) text += chunk;
    const answer = f({ method: req.method, path: req.url, headers: req.headers, body: text && JSON.parse(text) });
    if (!answer) return; // it never comes
    res.writeHead(answer.status ?? 200, answer.headers);
    res.end(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body ?? {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${server.address().port}`;
}

/** A URL at which nobody answers. */
export async function unused() {
  const server = net.createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return `http://127.0.0.1:${port}`;
}

/**
 * A proxy in front of the node that breaks the first connections off, as many
 * as drops says, when the node's answer has come and before any of it is handed
 * on.
 */
export async function dropping(t, drops) {
  const target = new URL(url);
  const proxy = { dropped: 0 };
  const sockets = new Set();
  const server = net.createServer((near) => {
    const far = net.connect(Number(target.port), target.hostname);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on("error", () => {});
    }
    near.pipe(far);
    far.on("data", (chunk) => {
      if (proxy.dropped < drops) {
        proxy.dropped++;
        near.resetAndDestroy();
        far.destroy();
        return;
      }
      near.write(chunk);
    });
    far.on("close", () => near.destroy());
    near.on("close", () => far.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  proxy.url = `http://127.0.0.1:${server.address().port}`;
  return proxy;
}

/** Waits until f returns something true, and returns it. */
export async function eventually(what, f) {
  for (const end = performance.now() + 60_000; performance.now() < end; ) {
    const found = await f();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  throw new Error(`not within a minute: ${what}`);
}
