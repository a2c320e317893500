/** An answer or its headers (the id is in `Server-Timing: traceparent`), or a `traceparent` that the page sent. */
export type TraceSource = Response | Headers | string | null | undefined;

/** The trace id, 32 hex digits; undefined when `source` names none. Never throws. */
export declare const traceIdOf: (source: TraceSource) => string | undefined;

/** Remember that `error` came of the call that `source` belongs to; returns `error`, to be thrown. */
export declare const withTrace: <E>(error: E, source: TraceSource) => E;

/** What was remembered for `error` or its nearest cause: the option `traceId` of `install`. */
export declare const traceId: (error: unknown) => string | undefined;
