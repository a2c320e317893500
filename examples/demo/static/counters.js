// Counters: browser reports, requests, and the account of what was delivered.

import { byId, duration, element } from "/static/element.js";

const number = (value) => value.toLocaleString("en");

/** `counters` is {kinds, results, requests: [{method, route, status, count, mean_ms}], ledger: [row]}. */
export function show(counters) {
  byId("kinds").replaceChildren(...Object.entries(counters.kinds).map(([kind, count]) =>
    element("div", "", element("dt", "", kind === "unhandledrejection" ? "rejection" : kind), element("dd", "", number(count)))));
  byId("results").replaceChildren(...Object.entries(counters.results).map(([result, count]) =>
    row([result, number(count)])));
  byId("requests").replaceChildren(...(counters.requests.length ? counters.requests.map((request) =>
    row([`${request.method} ${request.route}`, request.status, number(request.count), duration(request.mean_ms)],
      request.status.startsWith("5"))) : [empty("No requests yet", 4)]));
  byId("ledger").replaceChildren(...(counters.ledger.length ? counters.ledger.map((entry) =>
    row([named(entry), ...[entry.emitted, entry.delivered, entry.dropped, entry.pending].map(number)],
      entry.dropped > 0)) : [empty("No sink yet", 5)]));
  balance(counters.ledger);
}

function balance(ledger) {
  const holds = ledger.every((row) => row.emitted === row.delivered + row.dropped + row.pending);
  const shown = byId("balance");
  shown.dataset.mood = holds ? "good" : "bad";
  shown.textContent = holds ? "It adds up: every record is accounted for." : "It does not add up: this is a bug.";
}

function row(cells, failed = false) {
  const [name, ...values] = cells;
  return element("tr", failed ? "bad" : "", element("td", "name", name), ...values.map((value) => element("td", "number", value)));
}

function named(entry) {
  return element("span", "", entry.signal, " ", element("span", "sink", entry.sink));
}

function empty(text, columns) {
  const cell = element("td", "none", text);
  cell.colSpan = columns;
  return element("tr", "", cell);
}
