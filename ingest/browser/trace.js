// The trace of a failing API call, kept with the error that came of it.

const TRACEPARENT = /^[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}/; // W3C Trace Context, section 3.2
const SERVER_TIMING = /(?:^|,)\s*traceparent\s*;\s*desc\s*=\s*"?([^",;\s]+)/i;
const MOST_CAUSES = 8;

/** @type {WeakMap<object, string>} */
const traces = new WeakMap();

/** @type {typeof import("./trace.d.ts").traceIdOf} */
export const traceIdOf = (source) => {
  try {
    /** @type {any} */
    const { headers = source } = Object(source);
    const text = typeof source === "string" ? source : SERVER_TIMING.exec(headers.get("server-timing") ?? "")?.[1];
    return TRACEPARENT.exec(text ?? "")?.[1];
  } catch {
    return undefined; // neither text nor headers
  }
};

/** @type {typeof import("./trace.d.ts").withTrace} */
export const withTrace = (error, source) => {
  const id = traceIdOf(source);
  if (id && Object(error) === error) traces.set(/** @type {object} */ (error), id);
  return error;
};

/** @type {typeof import("./trace.d.ts").traceId} */
export const traceId = (error) => {
  try {
    /** @type {any} */
    let at = error;
    for (let depth = 0; Object(at) === at && depth < MOST_CAUSES; depth++) {
      const id = traces.get(at);
      if (id) return id;
      at = at.cause;
    }
  } catch {
    // a getter that throws: there is no telling
  }
  return undefined;
};
