/** The nodes that a client knows, and the one that it thinks is the primary. */
export class Nodes {
  #all;
  #at = 0;

  constructor(urls) {
    const list = (Array.isArray(urls) ? urls : String(urls).split(",")).map(nodeURL);
    if (list.length === 0) throw new TypeError("no URL of a node is given");
    this.#all = list;
  }

  get current() {
    return this.#all[this.#at];
  }

  /** How often a call goes on to another node. */
  get hops() {
    return this.#all.length + 1;
  }

  /**
   * Goes on from a node that is not the primary, or does not answer, to the one
   * that it named, or to the next. False: there is no other.
   */
  leave(from, to) {
    if (this.current !== from) return true; // another call has done it
    const named = namedURL(to);
    if (named && named !== from) {
      this.#at = this.#all.indexOf(named);
      if (this.#at < 0) this.#at = this.#all.push(named) - 1;
      return true;
    }
    this.#at = (this.#at + 1) % this.#all.length;
    return this.#all.length > 1;
  }
}

function nodeURL(text) {
  try {
    const url = new URL(String(text).trim());
    if (url.protocol === "http:" || url.protocol === "https:") {
      return (url.origin + url.pathname).replace(/\/+$/, "");
    }
  } catch {
    // said below
  }
  throw new TypeError(`${JSON.stringify(text)} is not the URL of a node; write it like http://127.0.0.1:7780`);
}

function namedURL(text) {
  try {
    return text ? nodeURL(text) : "";
  } catch {
    return "";
  }
}
