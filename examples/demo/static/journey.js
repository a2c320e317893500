// What became of the last click: page, server, log store, trace store, with times since the click.

import { byId, duration, element, shortId } from "/static/element.js";

const steps = Object.fromEntries([...byId("journey").children].map((step) => [step.dataset.step, step]));
const NOTICED_MS = 700;
let current = null;
let hint;

/** Start anew; `kind` is that of the frontend line that is waited for, null when an access line is. */
export function start(text, kind) {
  current = { at: performance.now(), traceId: null, line: false, traced: false, kind };
  put("page", "fact", text);
  put("server", "wait", "waiting …");
  put("line", "wait", "waiting …");
  put("trace", "wait", "waiting …");
  clearTimeout(hint);
  if (kind) hint = setTimeout(put, NOTICED_MS, "server", "wait", "counted as a repeat, told soon");
}

/** The client has posted a report: of a click on a call, the answer is that of the call. */
export function reported(status, ms, traceId) {
  clearTimeout(hint);
  if (current?.traceId === null) answered(status, ms, traceId);
}

export function answered(status, ms, traceId = null) {
  if (current === null) return;
  clearTimeout(hint);
  current.traceId = traceId ?? current.traceId;
  const mood = status >= 200 && status < 400 ? "good" : "bad";
  put("server", mood, status === 0 ? "not reachable" : `${status} in ${duration(ms)}`);
}

/** Returns the sentence to announce when one of `lines` is the one that was waited for, else null. */
export function seeLines(lines) {
  if (current === null || current.line) return null;
  const found = lines.find(isAwaited);
  if (found === undefined) return null;
  current.line = true;
  const took = duration(performance.now() - current.at);
  put("line", "good", `${current.kind ? "frontend-error" : "access line"} after ${took}`);
  return `${current.kind ? "Frontend error" : "Access line"} in the log store after ${took}`;
}

export function seeTraces(traces) {
  if (current === null || current.traced || current.traceId === null) return;
  const found = traces.find((trace) => trace.trace_id === current.traceId);
  if (found === undefined) return;
  current.traced = true;
  const spans = found.count === 1 ? "1 span" : `${found.count} spans`;
  put("trace", "good", `${shortId(found.trace_id)}, ${spans}, ${duration(performance.now() - current.at)}`);
}

function isAwaited(line) {
  if (current.kind) return line.kind === "frontend" && line.frontend_kind === current.kind;
  return line.kind === "access" && current.traceId !== null && line.trace_id === current.traceId;
}

function put(step, mood, text) {
  steps[step].dataset.mood = mood;
  steps[step].replaceChild(element("span", "value", text), steps[step].querySelector(".value"));
  steps[step].title = text;
}
