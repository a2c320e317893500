// A small reporter: enough for the demo. It never throws, and sends message, stack, address and build mode only.

import { traceOf } from "/static/api.js";

const ENDPOINT = "/api/telemetry/errors";

/**
 * Report uncaught errors and unhandled rejections of this page.
 * `onReport(report, answer)` is called once per report; `answer` resolves to {status, ms, traceId}, status 0 when unreachable.
 */
export function install({ getToken, build, onReport }) {
  const send = (kind, thrown) => {
    const report = describe(kind, thrown, build);
    const started = performance.now();
    const answer = fetch(ENDPOINT, {
      method: "POST",
      keepalive: true,
      headers: { "content-type": "application/json", authorization: `Bearer ${getToken()}` },
      body: JSON.stringify(report),
    }).then(
      (response) => ({ status: response.status, ms: performance.now() - started, traceId: traceOf(response) }),
      () => ({ status: 0, ms: performance.now() - started, traceId: null }),
    );
    onReport(report, answer);
  };
  addEventListener("error", (event) => send("error", event.error ?? event.message));
  addEventListener("unhandledrejection", (event) => send("unhandledrejection", event.reason));
}

function describe(kind, thrown, build) {
  const report = { kind, message: text(thrown), stack: "", url: location.pathname, build };
  if (thrown instanceof Error) {
    report.message = `${thrown.name}: ${thrown.message}`;
    report.stack = text(thrown.stack ?? "");
    if (thrown.traceId) report.trace_id = thrown.traceId;
  }
  return report;
}

function text(value) {
  try {
    return String(value).toWellFormed();
  } catch {
    return "a value that can't be shown"; // Object.create(null), a revoked proxy
  }
}
