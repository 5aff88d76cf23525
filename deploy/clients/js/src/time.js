/**
 * How long to wait after the n-th failed try, from 1: about 100 ms, doubled
 * each time up to 5 s. A random half keeps clients apart that lost one node.
 */
export function retryDelay(n) {
  const d = Math.min(100 * 2 ** Math.min(n - 1, 10), 5000);
  return d / 2 + Math.random() * (d / 2);
}

/** Waits; rejects with the signal's reason when it fires first. */
export function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/**
 * Runs f with a signal that fires with signal, or after ms with an Error of the
 * given message.
 */
export async function within(ms, message, signal, f) {
  signal?.throwIfAborted();
  const controller = new AbortController();
  const abort = () => controller.abort(signal.reason);
  signal?.addEventListener("abort", abort, { once: true });
  const timer = setTimeout(() => controller.abort(new Error(message)), ms);
  try {
    return await f(controller.signal);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", abort);
  }
}
