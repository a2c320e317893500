// Calls to the example APIs. A failing call becomes an error that is known by the trace of the call.

import { traceIdOf, withTrace } from "/telemetry/trace.js";

/** Resolves to {status, ms, traceId, body}; throws an Error for a status of 400 and above. */
export async function call(method, path, onAnswer = () => {}, { token = null, data = null } = {}) {
  const started = performance.now();
  const headers = {};
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (data !== null) headers["content-type"] = "application/json";
  const response = await fetch(path, { method, headers, body: data === null ? null : JSON.stringify(data) });
  const traceId = traceIdOf(response) ?? null;
  const answer = { method, path, status: response.status, ms: performance.now() - started, traceId };
  onAnswer(answer);
  if (!response.ok) throw withTrace(new Error(`${method} ${path} answered ${response.status}`), response);
  return { ...answer, body: response.status === 204 ? null : await response.json() };
}
