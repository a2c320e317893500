// Calls to the example API. A failing call becomes an error that names the trace of the call.

export class ApiError extends Error {
  constructor(message, traceId) {
    super(message);
    this.name = "ApiError";
    this.traceId = traceId;
  }
}

/** Resolves to {status, ms, traceId, body}; throws ApiError for a status of 400 and above. */
export async function call(method, path, onAnswer = () => {}) {
  const started = performance.now();
  const response = await fetch(path, { method });
  const traceId = traceOf(response);
  const answer = { method, path, status: response.status, ms: performance.now() - started, traceId };
  onAnswer(answer);
  if (!response.ok) throw new ApiError(`${method} ${path} answered ${response.status}`, traceId);
  return { ...answer, body: await response.json() };
}

/** The trace id of an answer, from Server-Timing: traceparent;desc="00-<trace id>-<span id>-01"; else null. */
export function traceOf(response) {
  return response.headers.get("server-timing")?.match(/traceparent;desc="00-([0-9a-f]{32})-/)?.[1] ?? null;
}
