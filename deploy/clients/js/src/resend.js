const keptBytes = 32 << 20; // of specs that are kept until they are replicated; the oldest go first

/**
 * Keeps what was enqueued until the node says that it is in object storage.
 * When another primary begins, which may be without some of it, it is sent
 * again: the idempotency keys make that safe.
 */
export class Resend {
  #last = null; // the newest commit that was seen
  #kept = [];
  #bytes = 0;

  /** Keeps specs that were just acknowledged. */
  enqueued(specs, bytes) {
    if (this.#last) this.#keep({ at: this.#last, specs, bytes });
  }

  /** Looks at an answer, and sends again by send what an earlier epoch may have lost. */
  async answered(headers, send, temporary) {
    const at = parseCommit(headers.get("Holdfast-Seq"));
    if (!at) return;
    for (const batch of this.#due(at, parseCommit(headers.get("Holdfast-Replicated-Seq")))) {
      try {
        await send(batch.specs);
        this.#keep({ ...batch, at: this.#last });
      } catch (err) {
        // What cannot be sent now waits for the next answer.
        if (temporary(err)) this.#keep(batch);
      }
    }
  }

  #keep(batch) {
    this.#kept.push(batch);
    this.#bytes += batch.bytes;
    while (this.#bytes > keptBytes) this.#drop();
  }

  #drop() {
    this.#bytes -= this.#kept.shift().bytes;
  }

  #due(at, safe) {
    if (!this.#last || after(at, this.#last)) this.#last = at;
    const oldest = this.#kept[0];
    if (oldest && oldest.at.epoch < this.#last.epoch) {
      const again = this.#kept;
      this.#kept = [];
      this.#bytes = 0;
      return again;
    }
    while (safe && this.#kept.length > 0 && this.#kept[0].at.epoch === safe.epoch && !after(this.#kept[0].at, safe)) this.#drop();
    return [];
  }
}

function after(a, b) {
  return a.epoch > b.epoch || (a.epoch === b.epoch && a.n > b.n);
}

function parseCommit(text) {
  const found = /^(\d+)\.(\d+)$/.exec(text ?? "");
  return found && { epoch: Number(found[1]), n: Number(found[2]) };
}
