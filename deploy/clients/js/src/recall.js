import http from "node:http";
import https from "node:https";

import { TooLong } from "./transport.js";

/**
 * An exchange, as Transport wants it, that the signal calls back: from then on
 * either the node knows that its answer is not wanted, or the answer comes.
 *
 * To abort a claim that waits for jobs would not do. The node may have answered
 * just then, and the jobs would be in nobody's hands until their leases end,
 * which costs them an attempt. So only our direction of the connection is
 * closed: the node sees that, and gives jobs back that it has not sent yet;
 * what it has sent is read. fetch cannot do that.
 */
export function recallable(agents, signal) {
  return (url, init, limit) => {
    const secure = url.startsWith("https:");
    return new Promise((resolve, reject) => {
      const req = (secure ? https : http).request(url, {
        method: init.method,
        headers: { ...init.headers, "Content-Length": Buffer.byteLength(init.body ?? "") },
        agent: secure ? agents.https : agents.http,
        signal: init.signal,
      });
      const recall = () => (req.socket?.connecting === false ? req.socket.end() : req.destroy(new Error("called back")));
      if (signal.aborted) recall();
      else signal.addEventListener("abort", recall, { once: true });
      req.once("close", () => signal.removeEventListener("abort", recall));
      req.once("error", reject);
      req.once("response", (res) => {
        const chunks = [];
        let bytes = 0;
        res.on("data", (chunk) => {
          chunks.push(chunk);
          bytes += chunk.length;
          if (bytes > limit) req.destroy(new TooLong(limit));
        });
        res.once("error", reject);
        res.once("end", () => {
          const headers = new Headers();
          for (const [name, value] of Object.entries(res.headers)) headers.set(name, String(value));
          resolve({ status: res.statusCode, headers, text: Buffer.concat(chunks).toString() });
        });
      });
      req.end(init.body);
    });
  };
}

/** Keeps the connections of exchanges alive, until close. */
export class Agents {
  http = new http.Agent({ keepAlive: true });
  https = new https.Agent({ keepAlive: true });

  close() {
    this.http.destroy();
    this.https.destroy();
  }
}
