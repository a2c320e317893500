// The fleet as a console is told of it: two reads a second apart, with the principal of an operator.

import { byId, element, seconds } from "/static/element.js";

/** A tag that no group of workers has. */
export const UNSERVED = "quantum";

const EVERY_MS = 1000;
const BADGES = { ok: "good", scaled: "warn", draining: "info", missing: "bad", unregistered: "warn" };
const REASONS = { covered: "good", idle: "", no_route: "bad", no_live_workers: "bad", stuck: "bad" };

let figures = {};
let waiting = {};
let covered = [];
let unjudged = "No tag is known yet";

/** Watch from now on. `token()` gives the bearer token, `press(method, path, text, data)` presses a knob. */
export function watchFleet(token, press) {
  const read = async (path) => {
    const response = await fetch(path, { headers: { authorization: `Bearer ${token()}` } });
    if (!response.ok) throw new Error(`${path} answered ${response.status}`);
    return response.json();
  };
  const look = async () => {
    if (!document.hidden) {
      try {
        const [fleet, coverage] = await Promise.all([read("/api/admin/fleet?workers=true"), read("/api/admin/coverage")]);
        showFleet(fleet, press);
        showCoverage(coverage);
      } catch {
        say("The platform does not answer; trying again.", "bad");
      }
    }
    setTimeout(look, EVERY_MS);
  };
  look();
}

/** What the queue's metrics tell of each tag, and what workers counted. */
export function showFigures({ queue, jobs }) {
  figures = queue;
  drawTags();
  byId("jobs").replaceChildren(...(jobs.length ? jobs.map((job) => row([
    job.tag, count(job.success), count(job.failure, "bad"), count(job.cancelled), count(job.lost), count(job.requeued, "warn"), count(job.given_up, "bad"),
  ], [3, 4])) : [none("No job has ended yet", 7)]));
}

/** Whether anybody knows the tag: a group, an action, or a job that waits. */
export const isKnown = (tag) => covered.some((each) => each.tag === tag);

function say(text, mood) {
  byId("fleet-state").textContent = text;
  byId("fleet-state").dataset.mood = mood;
}

function showFleet(fleet, press) {
  const failed = fleet.sources.filter((source) => source.condition === "failed");
  const ages = fleet.sources.filter((source) => source.age !== null).map((source) => source.age);
  if (failed.length) say(`can't be read: ${failed.map((source) => `${source.part} (${source.reason})`).join(", ")}`, "bad");
  else if (!fleet.settled) say("just started: silence is not believed yet", "warn");
  else say(`read ${seconds(Math.min(...ages))} ago`, "");
  byId("groups-empty").hidden = fleet.groups.length > 0;
  keep(byId("groups"), fleet.groups, (each) => each.group, (each) => newGroup(each.group, press), (item, each) => fillGroup(item, each, press));
}

// Items stay where they are, so that a button is still there between the press and the release of a mouse.
function keep(list, values, keyOf, make, fill) {
  const old = new Map([...list.children].map((item) => [item.dataset.key, item]));
  let before = list.firstElementChild;
  for (const value of values) {
    const key = keyOf(value);
    let item = old.get(key);
    if (item === undefined) {
      item = make(value);
      item.dataset.key = key;
    }
    old.delete(key);
    if (item === before) before = before.nextElementSibling;
    else list.insertBefore(item, before);
    fill(item, value);
  }
  for (const item of old.values()) item.remove();
}

function knob(label, title, pressed) {
  const button = element("button", "knob", label);
  button.type = "button";
  button.title = title;
  button.setAttribute("aria-label", title);
  button.addEventListener("click", pressed);
  return button;
}

const FIGURES = ["alive", "active", "draining", "busy", "lost"];

function newGroup(group, press) {
  const item = element("li", "");
  const scale = (step) => () => {
    const replicas = Math.max(0, Number(item.dataset.low) + step);
    return press("PATCH", `/api/groups/${group}`, `${group}: ${replicas} asked for`, { replicas });
  };
  item.append(
    element("div", "group-head",
      element("h3", "", group),
      element("span", "chip badge", "unknown"),
      element("span", "why", ""),
      element("span", "scale", element("span", "label", "asked for"),
        knob("−", `Ask for one ${group} worker fewer`, scale(-1)),
        element("b", "", "–"),
        knob("+", `Ask for one ${group} worker more`, scale(1)))),
    element("dl", "figures", ...FIGURES.map((name) => {
      const figure = element("div", "", element("dt", "", name), element("dd", "", "–"));
      figure.dataset.figure = name;
      return figure;
    })),
    element("ul", "workers"),
  );
  return item;
}

function fillGroup(item, { group, badge, desired, observed, workers }, press) {
  const asked = desired.value;
  const band = asked === null ? "–" : asked.low === asked.high ? String(asked.low) : `${asked.low}–${asked.high}`;
  const find = (selector) => item.querySelector(selector);
  item.dataset.group = group;
  item.dataset.badge = badge.value?.badge ?? "unknown";
  item.dataset.low = asked?.low ?? 0;
  const chip = find(".badge");
  chip.textContent = item.dataset.badge;
  chip.dataset.mood = badge.value ? BADGES[badge.value.badge] : "warn";
  find(".why").textContent = sentence(badge, asked, observed.value);
  find(".scale").hidden = asked === null;
  find(".scale b").textContent = band;
  for (const figure of item.querySelectorAll(".figures > div")) {
    const value = observed.value?.[figure.dataset.figure] ?? "–";
    figure.lastElementChild.textContent = value;
    figure.className = value === 0 ? "zero" : "";
  }
  keep(find(".workers"), inOrder(workers?.value ?? []), (worker) => worker.id, (worker) => newWorker(worker, press), fillWorker);
}

// Who lives first, then whom we lost, the latest first.
function inOrder(workers) {
  const lost = (worker) => (worker.life === "tombstone" ? 1 + worker.ping_age : 0);
  return [...workers].sort((one, other) => lost(one) - lost(other) || one.id.localeCompare(other.id));
}

function sentence(badge, asked, seen) {
  if (badge.value === null) return badge.detail || (badge.why === "settling" ? "no badge yet" : badge.why);
  if (!asked || !seen) return "nobody asked for it";
  const few = `${seen.active} of ${asked.low} active`;
  if (badge.value.badge === "missing") return seen.lost ? `${few}; somebody fell silent` : few;
  if (badge.value.badge === "scaled") return badge.value.direction === "under" ? few : `${seen.active} active, ${asked.high} asked for`;
  if (badge.value.badge === "draining") return `${few}; what runs is finished`;
  return "as asked for";
}

function newWorker({ id }, press) {
  const pod = id.slice(0, id.lastIndexOf("-"));
  const end = (how, signal) => () => press("POST", `/demo/pods/${pod}/${how}`, `${signal} to ${pod}`);
  return element("li", "",
    element("code", "worker", id),
    element("span", "chip"),
    element("span", "facts"),
    element("span", "knobs",
      knob("Drain", `Drain ${id}: SIGTERM, and it finishes what it runs`, end("drain", "SIGTERM")),
      knob("Kill", `Kill ${id}: SIGKILL`, end("kill", "SIGKILL"))));
}

function fillWorker(item, worker) {
  const state = worker.life === "tombstone" ? "lost" : worker.draining_for !== null ? "draining" : worker.running_jobs ? "busy" : "idle";
  const [, chip, facts, knobs] = item.children;
  item.dataset.worker = worker.id;
  item.dataset.state = state;
  chip.textContent = state;
  chip.dataset.mood = { lost: "bad", draining: "info", busy: "good", idle: "" }[state];
  facts.textContent = state === "lost" ? `last heard of ${seconds(worker.ping_age)} ago`
    : `${worker.jobs_executed} run, up ${seconds(worker.up_for)}${worker.current_job ? `, at ${worker.current_job.slice(0, 8)}` : ""}`;
  knobs.hidden = state === "lost";
}

function showCoverage(coverage) {
  // What is not known is not shown as it was.
  covered = coverage.tags.value ?? [];
  unjudged = coverage.tags.value ? "No tag is known yet" : coverage.settled ? `Can't be judged: ${coverage.tags.detail || coverage.tags.why}` : "Not judged yet: silence is not believed";
  waiting = Object.fromEntries((coverage.waiting.value ?? []).map((each) => [each.tag, each]));
  drawTags();
  document.querySelector("[data-action=unserved]").setAttribute("aria-pressed", String(isKnown(UNSERVED)));
}

function drawTags() {
  byId("tags").replaceChildren(...(covered.length ? covered.map(drawTag) : [none(unjudged, 7)]));
}

function drawTag(tag) {
  const here = waiting[tag.tag];
  const told = figures[tag.tag] ?? {};
  const chip = element("span", "chip", tag.reason.replaceAll("_", " "));
  chip.dataset.mood = REASONS[tag.reason];
  chip.dataset.reason = tag.reason;
  const served = element("span", "", chip, element("span", "by", tag.groups.length ? ` ${tag.serving} in ${tag.groups.join(", ")}` : " by no group"));
  const made = row([
    tag.tag, served, here ? `${here.pending}${here.capped ? "+" : ""}` : count(0), here ? seconds(here.oldest_age) : "–",
    told.running === undefined ? "–" : count(told.running), wait(told.wait_p50), wait(told.wait_p95),
  ], [5, 6], tag.level === "danger" ? "danger" : "");
  made.children[1].className = "served";
  made.dataset.tag = tag.tag;
  return made;
}

const wait = (value) => (value === undefined ? "–" : seconds(value));

const count = (value, mood = "") => element("span", value ? mood : "none", String(value));

function row(cells, wide, className = "") {
  return element("tr", className, ...cells.map((cell, index) =>
    element("td", index === 0 ? "name" : wide.includes(index) ? "number wide" : "number", cell)));
}

function none(text, columns) {
  const cell = element("td", "none", text);
  cell.colSpan = columns;
  return element("tr", "", cell);
}
