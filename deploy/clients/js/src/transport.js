import { HoldfastError, NotPrimary, Unreachable, errorOf, temporary, undone } from "./errors.js";
import { retryDelay, sleep, within } from "./time.js";

const maxAnswer = 64 << 20; // bytes of an answer
const maxErrorAnswer = 64 << 10;
const maxRetryAfterMs = 5000; // of a node's wish that is heeded

/**
 * Sends calls to the primary of a group of nodes. A call is
 * {method, path, query, body, waitMs, limit, accept, repeatable, after}.
 */
export class Transport {
  #nodes;
  #token;
  #timeoutMs;
  #fetch;

  constructor(nodes, { token = "", timeoutMs = 30_000, fetch } = {}) {
    this.#nodes = nodes;
    this.#token = token;
    this.#timeoutMs = timeoutMs;
    this.#fetch = fetch ?? ((url, init) => globalThis.fetch(url, init));
  }

  /**
   * Sends a call and returns the value of its answer. One that failed for now
   * is sent again: always if it did nothing, and if it did something unknown
   * when that may happen twice.
   */
  async call(call, { signal, tries = 5, exchange } = {}) {
    for (let tried = 1; ; tried++) {
      try {
        return await this.#hop(call, signal, exchange);
      } catch (err) {
        const again = temporary(err) && (call.repeatable || undone(err));
        if (!again || tried >= tries) throw err;
        const wish = Math.min(err.retryAfterMs ?? 0, maxRetryAfterMs);
        await sleep(Math.max(retryDelay(tried), wish), signal);
      }
    }
  }

  // A node that is not the primary has done nothing, nor has one without a
  // connection, so the call goes on to the one that may be.
  async #hop(call, signal, exchange) {
    for (let hop = 0; ; hop++) {
      const base = this.#nodes.current;
      try {
        return await this.#once(base, call, signal, exchange);
      } catch (err) {
        const elsewhere = err instanceof NotPrimary || err instanceof Unreachable;
        if (!elsewhere) throw err;
        const moved = this.#nodes.leave(base, err.primary);
        if (!undone(err) || !moved || hop >= this.#nodes.hops) throw err;
      }
    }
  }

  async #once(base, call, signal, exchange) {
    const headers = { Accept: "application/json" };
    let body;
    if (call.body !== undefined) {
      body = JSON.stringify(call.body);
      headers["Content-Type"] = "application/json";
    }
    if (this.#token) headers.Authorization = `Bearer ${this.#token}`;
    const query = call.query?.toString();
    const url = base + call.path + (query ? `?${query}` : "");
    const send = exchange ?? ((to, init, limit) => this.#exchange(to, init, limit));
    let answer;
    try {
      answer = await within(this.#timeoutMs + (call.waitMs ?? 0), "no answer in time", signal, (timed) =>
        send(url, { method: call.method, headers, body, signal: timed }, call.limit ?? maxAnswer),
      );
    } catch (err) {
      if (signal?.aborted) throw signal.reason;
      if (err instanceof TooLong) throw new Error(`${call.method} ${call.path}: ${err.message}`);
      throw new Unreachable(base, err, { sent: !neverConnected(err) });
    }
    const ok = (answer.status >= 200 && answer.status < 300) || answer.status === call.accept;
    if (!ok) throw readError(answer);
    let value;
    try {
      value = JSON.parse(answer.text);
    } catch (err) {
      throw new Error(`${call.method} ${call.path}: the answer is not that of a Holdfast node: ${err.message}`);
    }
    await call.after?.(answer.headers);
    return value;
  }

  async #exchange(url, init, limit) {
    const res = await this.#fetch(url, { ...init, cache: "no-store" });
    return { status: res.status, headers: res.headers, text: await readText(res, res.ok ? limit : maxErrorAnswer) };
  }
}

export class TooLong extends Error {
  constructor(limit) {
    super(`the answer is longer than ${limit} bytes`);
  }
}

async function readText(res, limit) {
  if (!res.body) return "";
  const decoder = new TextDecoder();
  const reader = res.body.getReader();
  let text = "";
  for (let bytes = 0; ; ) {
    const { done, value } = await reader.read();
    if (done) return text + decoder.decode();
    bytes += value.length;
    if (bytes > limit) {
      reader.cancel().catch(() => {});
      if (res.ok) throw new TooLong(limit);
      return text;
    }
    text += decoder.decode(value, { stream: true });
  }
}

const dialCodes = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"]);

// A browser does not tell, so there it may have been sent.
function neverConnected(err) {
  for (; err; err = err.cause) if (dialCodes.has(err.code)) return true;
  return false;
}

// Turns an error answer into an error, also one that a proxy wrote.
function readError({ status, headers, text }) {
  const seconds = Number(headers.get("Retry-After"));
  const about = { status, retryAfterMs: seconds > 0 ? seconds * 1000 : 0 };
  let body;
  try {
    body = JSON.parse(text)?.error;
  } catch {
    // not one of ours
  }
  if (!body?.code) {
    const shown = text.replace(/\s+/g, " ").trim();
    return new HoldfastError(`the answer is ${status} ${shown.length > 200 ? `${shown.slice(0, 200)}…` : shown}`.trim(), about);
  }
  const err = errorOf(body, about);
  if (err instanceof NotPrimary) err.primary = headers.get("Holdfast-Primary") ?? "";
  return err;
}
