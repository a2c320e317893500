// The page: buttons that break things, and a live view of what comes out of it.

import { call } from "/static/api.js";
import * as counters from "/static/counters.js";
import { byId, element, shortId } from "/static/element.js";
import { isKnown, showFigures, UNSERVED, watchFleet } from "/static/fleet.js";
import * as journey from "/static/journey.js";
import * as lines from "/static/lines.js";
import { watchReports } from "/static/reports.js";
import * as traces from "/static/traces.js";
import { install } from "/telemetry/browser.js";
import { feedbackUrl } from "/telemetry/feedback.js";
import { traceId } from "/telemetry/trace.js";

let selected = null;
let session = null;

const actions = {
  error() {
    journey.start("TypeError thrown", "error");
    const order = undefined;
    return order.total;
  },
  rejection() {
    journey.start("promise rejected", "unhandledrejection");
    Promise.reject(new Error("The payment window was closed"));
  },
  hostile() {
    journey.start("hostile Error thrown", "error");
    throw new Error('결제 "실패" 😀\nlevel=info \u001b[31mred\u202e at https://shop.example/pay?token=s3cret#access_token=s3cret');
  },
  async order() {
    journey.start("GET /api/orders/1042", null);
    await call("GET", "/api/orders/1042", seen);
  },
  async checkout() {
    journey.start("POST …/1042/checkout", "unhandledrejection");
    await call("POST", "/api/orders/1042/checkout", seen);
  },
  job: () => enqueue("a job to render", { tag: "render", seconds: 3 }),
  burst: () => enqueue("60 jobs", { tag: "thumbnail", count: 60, seconds: 0.6 }),
  failing: () => enqueue("a job that fails", { tag: "mail", seconds: 0.4, does: "fail" }),
  poison: () => enqueue("a poison job", { tag: "render", does: "poison" }),
  async unserved() {
    if (isKnown(UNSERVED)) {
      await press("DELETE", `/api/actions/${UNSERVED}`, `${UNSERVED} withdrawn`);
    } else {
      await press("PUT", `/api/actions/${UNSERVED}`, `${UNSERVED} offered`);
      await enqueue(`two jobs under ${UNSERVED}`, { tag: UNSERVED, count: 2 });
    }
  },
};

// Knobs of the platform are for operators.
async function press(method, path, text, data = null) {
  journey.start(text, null);
  await call(method, path, seen, { token: session.token, data });
}

const enqueue = (text, data) => press("POST", "/api/jobs", text, data);

function seen({ status, ms, traceId }) {
  journey.answered(status, ms, traceId);
}

function follow(traceId, reveal = false) {
  selected = traceId === selected ? null : traceId;
  lines.select(selected, reveal);
  const found = traces.select(selected);
  if (selected === null) {
    byId("selection").textContent = "Click a trace id to follow it";
    return;
  }
  const clear = element("button", "", "clear");
  clear.type = "button";
  clear.addEventListener("click", () => follow(selected));
  byId("selection").replaceChildren(found ? `Following ${shortId(selected)} · ` : `${shortId(selected)} is not here (yet) · `, clear);
}

function watch() {
  const events = new EventSource("/demo/events");
  const on = (name, handle) => events.addEventListener(name, (event) => handle(JSON.parse(event.data)));
  on("snapshot", (snapshot) => {
    lines.clear();
    traces.clear();
    lines.show(snapshot.lines, selected, false);
    traces.show(snapshot.traces, selected, false);
    state("live", "live");
    renew();
  });
  on("lines", (batch) => {
    lines.show(batch, selected, true);
    const sentence = journey.seeLines(batch);
    if (sentence !== null) byId("announce").textContent = sentence;
  });
  on("traces", (batch) => {
    traces.show(batch, selected, true);
    journey.seeTraces(batch);
    if (batch.some((trace) => trace.trace_id === selected)) reselect();
  });
  on("counters", (figures) => {
    counters.show(figures);
    showFigures(figures);
  });
  events.addEventListener("error", () => state("lost", "no connection"));
}

// A trace that was asked for before it had arrived is here now.
function reselect() {
  const traceId = selected;
  selected = null;
  follow(traceId);
}

function state(name, text) {
  byId("state").dataset.state = name;
  byId("state-text").textContent = text;
}

function setUpTheme() {
  const button = byId("theme");
  const root = document.documentElement;
  const show = () => {
    button.textContent = `Theme: ${root.dataset.theme ?? "auto"}`;
  };
  button.addEventListener("click", () => {
    const next = { auto: "light", light: "dark", dark: "auto" }[root.dataset.theme ?? "auto"];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem("fleetglass-theme", next);
    } catch {
      // storage refused: the choice lasts as long as the page
    }
    show();
  });
  show();
}

const json = (path) => fetch(path).then((response) => response.json());

// A demo that was started again has another token.
async function renew() {
  session = await json("/demo/session");
  byId("service").textContent = session.service;
  for (const time of document.querySelectorAll("[data-time]")) time.textContent = session.times[time.dataset.time];
}

async function setUp() {
  setUpTheme();
  lines.setUp((traceId) => follow(traceId));
  traces.setUp((traceId) => follow(traceId, true));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && selected !== null) follow(selected);
  });
  await renew();
  const feedback = await feedbackUrl();
  if (feedback !== null) {
    byId("feedback").href = feedback;
    byId("feedback").hidden = false;
  }
  install({ getToken: () => session.token, build: "development", traceId });
  watchReports(journey.reported);
  for (const button of document.querySelectorAll("[data-action]")) {
    button.addEventListener("click", () => actions[button.dataset.action]());
    button.disabled = false;
  }
  watch();
  watchFleet(() => session.token, press);
}

setUp();
