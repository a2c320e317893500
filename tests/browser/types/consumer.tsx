// What a console written in TypeScript may rely on; checked, never run.

import * as React from "react";
import { createRoot } from "react-dom/client";
import { install, type Kind, type Report, type Reporter } from "@fleetglass/browser";
import { feedbackUrl } from "@fleetglass/browser/feedback";
import { errorBoundary, rootCallbacks } from "@fleetglass/browser/react";
import { traceId, traceIdOf, withTrace } from "@fleetglass/browser/trace";

const kind: Kind = "react";
const reporter: Reporter = install({
  endpoint: "https://ingest.example/api/telemetry/errors",
  getToken: async () => sessionStorage.getItem("token"),
  getWorkspace: () => "acme",
  beforeSend(report: Report) {
    report.url = report.url.replace(/\d+/, ":id");
    return report.message.includes("ignore") ? null : report;
  },
  build: "production",
  release: "4.2.0",
  limit: 20,
  traceId,
});
install();
install({ beforeSend: () => false, getToken: () => null });
reporter.report(new Error("x"));
reporter.report("text", kind);
reporter.close();

// @ts-expect-error: not a kind
reporter.report("x", "fatal");
// @ts-expect-error: not an option
install({ dsn: "https://key@example" });
// @ts-expect-error: the kind is what it is
install({ beforeSend: (report) => ((report.kind = "other"), report) });

export async function pay(): Promise<void> {
  const answer = await fetch("/api/pay", { method: "POST" });
  const id: string | undefined = traceIdOf(answer);
  if (!answer.ok) throw withTrace(new Error(`pay: ${answer.status} ${id}`), answer);
}

const Boundary = errorBoundary(React, reporter);
const link: Promise<string | null> = feedbackUrl();

createRoot(document.body, rootCallbacks(reporter, { onCaughtError: (error, info) => console.log(error, info.componentStack) })).render(
  <Boundary fallback={(error: unknown, retry: () => void) => <button onClick={retry}>{String(error)}</button>}>
    <Boundary fallback={<p>broken</p>}>{String(link)}</Boundary>
  </Boundary>,
);
