// The trace pane: each trace as a waterfall, newest first.

import { byId, duration, element, shortId } from "/static/element.js";

// Of each kind: jobs come by themselves, and must not push out what somebody has just done.
const KEPT = 20;

const list = byId("traces");
const scroll = byId("traces-scroll");

export function setUp(onTrace) {
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-trace]");
    if (button) onTrace(button.dataset.trace);
  });
  for (const button of document.querySelectorAll("[data-traces][aria-pressed]")) {
    button.addEventListener("click", () => {
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
      list.dataset.filter = button.dataset.traces;
      scroll.scrollTop = 0;
    });
  }
}

/** Show traces of the form {trace_id, kind, count, failed, spans}; one that is there already is drawn anew in its place. */
export function show(traces, selected, fresh) {
  for (const trace of traces) {
    const old = find(trace.trace_id);
    const item = draw(trace, fresh && old === null);
    item.classList.toggle("linked", trace.trace_id === selected);
    if (old === null) prepend(item);
    else old.replaceWith(item);
  }
  for (const kind of ["request", "job"]) {
    for (const item of [...list.children].filter((each) => each.dataset.kind === kind).slice(KEPT)) {
      if (item.dataset.traceId !== selected) item.remove();
    }
  }
  byId("traces-empty").hidden = list.childElementCount > 0;
}

export function clear() {
  list.replaceChildren();
  byId("traces-empty").hidden = false;
}

/** Mark one trace and bring it into view; false when it isn't (or is no longer) in the pane. */
export function select(traceId) {
  for (const item of list.children) item.classList.toggle("linked", item.dataset.traceId === traceId);
  const item = traceId === null ? null : find(traceId);
  if (item !== null) scroll.scrollTo({ top: item.offsetTop - 8 });
  return item !== null;
}

// A reader who has scrolled down keeps the place: what comes in above pushes the scroll position along.
function prepend(item) {
  const before = scroll.scrollHeight;
  list.prepend(item);
  if (scroll.scrollTop > 0) scroll.scrollTop += scroll.scrollHeight - before;
}

function find(traceId) {
  return [...list.children].find((item) => item.dataset.traceId === traceId) ?? null;
}

function draw({ trace_id: traceId, kind, count, failed, spans }, fresh) {
  const start = Math.min(...spans.map((span) => span.start_ms));
  const total = Math.max(...spans.map((span) => span.start_ms + span.duration_ms)) - start || 1;
  const root = spans[0];
  const item = element("li", fresh ? "fresh" : "");
  Object.assign(item.dataset, { traceId, kind });
  const link = element("button", "trace-link", shortId(traceId));
  link.type = "button";
  link.dataset.trace = traceId;
  link.title = `Trace ${traceId}`;
  link.setAttribute("aria-label", `Follow trace ${shortId(traceId)}`);
  item.append(
    element(
      "div", "trace-head",
      element("span", `chip ${failed ? "bad" : ""}`, String(root.http_status ?? (failed ? "error" : "ok"))),
      element("span", "name", root.name),
      element("span", "meta", element("span", "", clock(start)), element("span", "", duration(total)), link),
    ),
    element("ol", "spans", ...spans.map((span, index) => bar(span, start, total, span.service !== spans[index - 1]?.service))),
  );
  if (count > spans.length) item.append(element("p", "rest", `and ${count - spans.length} spans more`));
  return item;
}

function bar(span, start, total, named) {
  const offset = span.start_ms - start;
  const shape = document.createElement("i");
  shape.style.left = `${(offset / total) * 100}%`;
  shape.style.width = `${(span.duration_ms / total) * 100}%`;
  Object.assign(shape.dataset, { kind: span.kind, status: span.status });
  const failed = span.status === "error";
  const name = element("span", `span-name ${failed ? "bad" : ""}`, named && element("span", "service", span.service), span.name);
  name.style.paddingLeft = `${span.depth * 0.75}rem`;
  name.title = `${span.service}: ${span.name} (${span.kind}${failed ? `, error ${span.status_message}` : ""})`;
  const track = element("span", "track", shape);
  track.title = `starts at ${duration(offset)}, takes ${duration(span.duration_ms)}`;
  return element("li", "", name, track, element("span", "span-time", duration(span.duration_ms)));
}

function clock(ms) {
  return new Date(ms).toLocaleTimeString([], { hour12: false });
}
