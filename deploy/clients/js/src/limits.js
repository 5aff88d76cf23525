// Limits of a node on what a worker sends, which it keeps so as not to be
// refused, and how it counts them.

export const maxResult = 64 << 10;
export const maxProgress = 64 << 10;
export const maxError = 8 << 10;
export const maxItems = 1000;
export const maxQueues = 100;
export const maxNesting = 512;
export const maxName = 128;
export const minLeaseMs = 1000;
export const maxLeaseMs = 24 * 3600 * 1000;
export const maxWaitMs = 60_000;
export const maxDelayMs = 10 * 365 * 24 * 3600 * 1000;

const utf8 = new TextEncoder();

/** Bytes of a text in UTF-8. */
export function byteLength(text) {
  return utf8.encode(text).length;
}

/** A text cut to at most max bytes, at the end of a character. */
export function cut(text, max) {
  const bytes = utf8.encode(text);
  if (bytes.length <= max) return text;
  let end = max;
  while ((bytes[end] & 0xc0) === 0x80) end--;
  return new TextDecoder().decode(bytes.subarray(0, end));
}

/** How deep the arrays and objects of a valid JSON text are nested. */
export function nesting(text) {
  let depth = 0;
  let deepest = 0;
  for (let i = 0; i < text.length; i++) {
    switch (text[i]) {
      case '"':
        for (i++; i < text.length && text[i] !== '"'; i++) if (text[i] === "\\") i++;
        break;
      case "[":
      case "{":
        deepest = Math.max(deepest, ++depth);
        break;
      case "]":
      case "}":
        depth--;
    }
  }
  return deepest;
}

/** A value as JSON, within max bytes; what names it in the error. */
export function encode(what, value, max) {
  let text;
  try {
    text = JSON.stringify(value);
  } catch (err) {
    throw new TypeError(`the ${what} is no JSON value: ${err.message}`, { cause: err });
  }
  if (text === undefined) throw new TypeError(`the ${what} is no JSON value: it is a ${typeof value}`);
  const size = byteLength(text);
  if (size > max) throw new RangeError(`the ${what} is ${size} bytes; the limit is ${max}`);
  if (nesting(text) > maxNesting) throw new RangeError(`the ${what} is nested more than ${maxNesting} levels deep`);
  return text;
}
