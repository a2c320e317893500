// Calls to the example API. A failing call becomes an error that is known by the trace of the call.

import { traceIdOf, withTrace } from "/telemetry/trace.js";

/** Resolves to {status, ms, traceId, body}; throws an Error for a status of 400 and above. */
export async function call(method, path, onAnswer = () => {}) {
  const started = performance.now();
  const response = await fetch(path, { method });
  const traceId = traceIdOf(response) ?? null;
  const answer = { method, path, status: response.status, ms: performance.now() - started, traceId };
  onAnswer(answer);
  if (!response.ok) throw withTrace(new Error(`${method} ${path} answered ${response.status}`), response);
  return { ...answer, body: await response.json() };
}
