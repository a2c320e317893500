// What the browser itself knows of the client's posts: the client tells nobody, and nothing needs to wrap it.

const ENDPOINT = "/api/telemetry/errors";

/** Call `told(status, ms, traceId)` for each report that has been answered; status 0 when nobody could be reached. */
export function watchReports(told) {
  const observer = new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (!entry.name.endsWith(ENDPOINT)) continue;
      const parent = entry.serverTiming?.find((timing) => timing.name === "traceparent");
      told(entry.responseStatus, entry.duration, parent?.description.split("-")[1] ?? null);
    }
  });
  observer.observe({ type: "resource" });
}
