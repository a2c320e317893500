// The browser client: uncaught errors and unhandled rejections of a page, each reported once.
//
// It sends message, stack, location path, kind and build mode; nothing else unless the page opts in. It never
// throws, keeps no handler waiting, and is bounded in posts, bytes and memory whatever the page does.

/** @import { Install, Kind } from "./browser.d.ts" */

/**
 * One error within its window: `body` is what is told of it (undefined: nothing is), `unsent` how many
 * occurrences have not been told yet, `span` the length of the next window in milliseconds.
 * @typedef {{ key: string, body?: string, unsent: number, span: number, timer?: ReturnType<typeof setTimeout> }} Entry
 */

const WINDOW_MS = 10_000;
const PAUSE_MS = 60_000; // after a failure that names no time of its own
const PACE_MS = 1_000; // between posts, once BURST were made or one failed: the service takes one a second
const BURST = 10;
const MOST_REPEATS = 1_000; // what the service takes in one report; more within one window are not told
const MOST_ENTRIES = 100;
const KEEPALIVE_BYTES = 60_000; // the browser refuses keepalive beyond 65,536 in flight, ours and the page's
const KEEPALIVE_LEAST = 4_000; // what each post counts for at least: browsers refuse too many of them as well
const LONGEST_HEAD = 1_000; // characters of a message in front of a stack, so that frames have room behind it
const LONGEST_PART = 20_000;
/**
 * Bytes of each field as JSON; together below the 16,384 that the service reads.
 * @type {Record<string, number>}
 */
const FIELDS = { kind: 32, message: 2_048, stack: 8_192, url: 1_024, build: 128, release: 128, trace_id: 64 };
// Nobody's fault, or an extension's: the page can do nothing about these.
const NOISE = /^Script error\.?$|ResizeObserver loop|-extension:\/\/|webkit-masked-url/m;
const CLOSING = /[)\]},;.']*$/;
const POSITION = /(:\d+:\d+)?[)\]},;.']*$/;

/** @param {string} text */
const bytes = (text) => new TextEncoder().encode(text).length;

/** @param {any} thrown @param {string} key @returns {string} */
const part = (thrown, key) => {
  try {
    return typeof thrown[key] === "string" ? thrown[key].slice(0, LONGEST_PART) : "";
  } catch {
    return ""; // null, undefined, a getter or a Proxy that throws
  }
};

/**
 * Message and stack of whatever was thrown. Of an object that is no error only the keys are told, since its
 * values may be what somebody typed into a form.
 * @param {any} thrown
 */
const describe = (thrown) => {
  const name = part(thrown, "name");
  const message = part(thrown, "message");
  const stack = part(thrown, "stack");
  if (message || stack) {
    const head = name && message ? `${name}: ${message}` : name || message;
    // Chrome's stacks start with name and message, those of Firefox and Safari hold frames only.
    const told = !stack || stack.startsWith(head) || (/^ +at /m.test(stack) && stack.includes(message));
    const whole = told ? stack : `${head}\n${stack}`;
    return [head, whole.replace(message, () => message.slice(0, LONGEST_HEAD))];
  }
  try {
    if (Object(thrown) !== thrown) return [String(thrown).slice(0, LONGEST_PART) || '""', ""];
    return [`${{}.toString.call(thrown)} with keys ${Object.keys(thrown).slice(0, 10)}`, ""];
  } catch {
    return ["unreadable value", ""];
  }
};

/**
 * Every address in `text` without user info, query and fragment.
 * @param {string} text @param {RegExp} rest what stands behind an address and stays
 */
const bare = (text, rest) =>
  text.replace(/[^\s"<>`]+/g, (word) => {
    const at = word.search(/[?#]/);
    const query = word.slice(at);
    if (at >= 0 && (word.slice(0, at).includes("/") || /[?&#][^=?#&/]{0,64}=/.test(query)))
      word = word.slice(0, at) + rest.exec(query.slice(-30))?.[0];
    return word.replace(/(:\/\/)[^/?#]*@/g, "$1");
  });

/**
 * At most `most` bytes of JSON: whole code points, and of a stack whole lines.
 * @param {string} text @param {number} most @param {boolean} lines
 */
const fit = (text, most, lines) => {
  let cut = text.slice(0, most);
  for (let size; (size = bytes(JSON.stringify(cut)) - 2) > most; ) cut = cut.slice(0, (cut.length * most) / size);
  if (cut !== text) cut = cut.replace(lines ? /\n[^\n]*$/ : /[\ud800-\udbff]$/, "");
  return cut.toWellFormed?.() ?? cut;
};

/** @type {Install} */
export const install = (options) => {
  const o = options ?? {};
  const endpoint = o.endpoint ?? "/api/telemetry/errors";
  const send = globalThis.fetch; // as it is now: what wraps it later never sees, and never reports, our own posts
  const listening = new AbortController();
  const entries = /** @type {Map<string, Entry>} */ (new Map());
  const seen = new WeakSet();
  let posts = 0;
  let flying = 0; // bytes of keepalive posts that have no answer yet
  let pausedUntil = 0;
  let pacedUntil = 0;
  let busy = false;

  const close = () => {
    listening.abort();
    entries.forEach((entry) => clearTimeout(entry.timer));
    entries.clear();
  };

  /** @param {Entry} entry @param {number} ms */
  const wake = (entry, ms) => {
    clearTimeout(entry.timer);
    if (!listening.signal.aborted) entry.timer = setTimeout(flush, ms, entry);
  };

  /** Send what the entry holds, or end its window. @param {Entry} entry @param {boolean} [end] the page may end now */
  const flush = (entry, end) => {
    const now = Date.now();
    const held = Math.max(pausedUntil, end ? 0 : pacedUntil) - now;
    if (!entry.unsent || !entry.body) entries.delete(entry.key);
    else if (held > 0) wake(entry, held);
    else if (posts >= (o.limit ?? 50)) close();
    else {
      if (++posts >= BURST || pausedUntil) pacedUntil = now + PACE_MS;
      wake(entry, entry.span);
      entry.span *= 2; // an error that goes on and on leaves posts for others
      post(entry, Math.min(entry.unsent, MOST_REPEATS), end);
      entry.unsent = 0;
    }
  };

  /** @param {Entry} entry @param {number} repeat @param {boolean} [end] */
  const post = async (entry, repeat, end) => {
    const body = `{"repeat":${repeat},${entry.body}`;
    const size = Math.max(bytes(body), KEEPALIVE_LEAST);
    const alive = flying + size > KEEPALIVE_BYTES ? 0 : size;
    let wait = 0; // until it is tried again, in milliseconds; 0: it isn't
    flying += alive;
    try {
      const token = await o.getToken?.();
      const room = await o.getWorkspace?.();
      if (o.getToken && !token) {
        posts--;
        wait = WINDOW_MS; // nobody has signed in yet
      } else if (token || room || !end || !navigator.sendBeacon?.(endpoint, body)) {
        // A beacon carries no header: it is for principals whom the browser itself carries.
        const { status, headers } = await send(endpoint, {
          method: "POST",
          body,
          headers: {
            "content-type": "application/json",
            ...(token && { authorization: `Bearer ${token}` }),
            ...(room && { "x-workspace": room }),
          },
          credentials: token ? "same-origin" : "include",
          keepalive: !!alive,
          redirect: "error",
          referrerPolicy: "strict-origin",
        });
        if ([401, 403].includes(status)) close();
        if (status === 429 || status >= 500) {
          const after = headers.get("retry-after") ?? "";
          wait = Math.min(Math.max(+after * 1e3 || Date.parse(after) - Date.now() || PAUSE_MS, PACE_MS), 60 * PAUSE_MS);
        }
      }
    } catch {
      wait = PAUSE_MS;
      if (!navigator.onLine) posts--; // none was made
    }
    flying -= alive;
    if (wait) {
      pausedUntil = Date.now() + wait;
      entry.unsent += repeat;
      entries.set(entry.key, entry);
      wake(entry, wait);
    }
  };

  /** @param {Kind} kind @param {any} thrown @param {ErrorEvent} [event] */
  const capture = (kind, thrown, event) => {
    if (busy || listening.signal.aborted) return;
    busy = true; // what goes wrong in here is ours, or comes from a getter of the value
    try {
      if (Object(thrown) === thrown) {
        if (seen.has(thrown)) return;
        seen.add(thrown);
      }
      let [message, stack] = describe(thrown);
      // A bare value, and a script that can't be parsed: only the event knows where.
      if (event?.filename && !/:\d+:\d+/.test(stack))
        stack = `${stack || message}\n    at ${event.filename}:${event.lineno}:${event.colno}`;
      const key = `${message}\n${stack}`;
      const known = entries.get(key);
      if (known) known.unsent++;
      else if (entries.size < MOST_ENTRIES && !NOISE.test(key) && !key.includes(endpoint)) {
        /** @type {Entry} */
        const entry = { key, unsent: 1, span: WINDOW_MS };
        entries.set(key, entry);
        wake(entry, WINDOW_MS);
        /** @type {any} */
        let draft = {
          kind,
          message: bare(message, CLOSING),
          stack: bare(stack, POSITION),
          url: location.pathname,
          build: o.build ?? "production",
          release: o.release,
        };
        try {
          draft.trace_id = o.traceId?.(thrown);
        } catch {
          // the report counts for more than its trace
        }
        if (o.beforeSend) draft = o.beforeSend(draft);
        if (draft) {
          entry.body = JSON.stringify({ ...draft, kind }, (name, value) =>
            !name ? value : name in FIELDS && value != null ? fit(String(value), FIELDS[name], name === "stack") : undefined,
          ).slice(1);
          flush(entry);
        }
      }
    } catch {
      // a reporter may not add to what went wrong
    } finally {
      busy = false;
    }
  };

  /** @param {boolean} end */
  const flushAll = (end) => entries.forEach((entry) => entry.unsent && flush(entry, end));

  /** @type {Record<string, (event: any) => void>} */
  const handlers = {
    error: (event) => (event.error || event.message) && capture("error", event.error ?? event.message, event),
    unhandledrejection: (event) => capture("unhandledrejection", event.reason),
    pagehide: () => flushAll(true),
    visibilitychange: () => document.visibilityState === "hidden" && flushAll(true),
    online() {
      pausedUntil = 0;
      flushAll(false);
    },
  };
  for (const type in handlers) globalThis.addEventListener?.(type, handlers[type], { signal: listening.signal });

  return { report: (error, kind) => capture(kind ?? "other", error), close };
};
