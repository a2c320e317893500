// When something is sent: windows, repeats, pace, the page's cap, back-off, the end of a page.

import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "../../../ingest/browser/browser.js";
import { open, settle, wait } from "./page.mjs";

const same = (message = "again") => Object.assign(new Error(message), { stack: "" });

/** `count` occurrences of one error, each an object of its own. */
const repeat = (page, count, message) => {
  for (let n = 0; n < count; n++) page.throws(same(message));
};

const told = (page) =>
  [...page.reports(), ...page.beacons.map(({ body }) => JSON.parse(body))].reduce((sum, report) => sum + report.repeat, 0);

test("the first is sent at once, the others when the window of 10 s ends", async () => {
  const page = open();
  install();
  repeat(page, 1001);
  await settle();
  assert.deepEqual(page.reports().map((report) => report.repeat), [1]);
  await wait(9_750);
  assert.equal(page.posts.length, 1);
  await wait(500);
  assert.deepEqual(page.reports().map((report) => report.repeat), [1, 1000]);
});

test("after a quiet window the same error is new again", async () => {
  const page = open();
  install();
  repeat(page, 1);
  await wait(10_000);
  repeat(page, 1);
  await settle();
  assert.deepEqual(page.reports().map((report) => report.repeat), [1, 1]);
});

test("an error that goes on for an hour takes few of the page's posts, and every occurrence is told", async () => {
  const page = open();
  install();
  let thrown = 0;
  for (let second = 0; second < 3600; second++) {
    repeat(page, 1);
    thrown++;
    await wait(1000);
  }
  page.fire("pagehide");
  await settle();
  assert.ok(page.posts.length <= 12, `${page.posts.length}`);
  assert.ok(page.posts.every((post) => post.report.repeat <= 1000));
  assert.ok(told(page) <= thrown);
  assert.ok(told(page) >= 2500, `${told(page)}`);
});

test("A/B/A/B are two reports and two closings", async () => {
  const page = open();
  install();
  for (let n = 0; n < 200; n++) repeat(page, 1, n % 2 ? "B" : "A");
  await wait(10_500);
  assert.deepEqual(page.reports().map(({ message, repeat }) => [message, repeat]), [
    ["Error: A", 1],
    ["Error: B", 1],
    ["Error: A", 99],
    ["Error: B", 99],
  ]);
});

test("one object is one error, however many ways it comes", async () => {
  const page = open();
  const reporter = install();
  const error = same();
  reporter.report(error, "react");
  page.throws(error);
  page.rejects(error);
  reporter.report(error);
  await wait(11_000);
  assert.deepEqual(page.reports().map(({ kind, repeat }) => [kind, repeat]), [["react", 1]]);
});

test("a page makes at most 50 posts, the first ten at once, then one a second", async () => {
  const page = open();
  install();
  for (let n = 0; n < 5000; n++) repeat(page, 1, `number ${n}`);
  await settle();
  assert.equal(page.posts.length, 10);
  await wait(5_000);
  assert.ok(page.posts.length >= 14 && page.posts.length <= 16, `${page.posts.length}`);
  await wait(200_000);
  assert.equal(page.posts.length, 50);
  repeat(page, 100, "later");
  await wait(200_000);
  assert.equal(page.posts.length, 50);
});

test("the cap is an option", async () => {
  const page = open();
  install({ limit: 2 });
  for (let n = 0; n < 9; n++) repeat(page, 1, `number ${n}`);
  await wait(60_000);
  assert.equal(page.posts.length, 2);
});

for (const [after, seconds] of [
  ["7", 7],
  ["0", 1],
  [undefined, 60],
  ["soon", 60],
  [new Date(Date.UTC(2026, 10, 30, 0, 0, 20)).toUTCString(), 20],
  ["999999", 3600],
]) {
  test(`429 with Retry-After ${after} is tried again after ${seconds} s`, async () => {
    const page = open();
    page.answer = () => (page.posts.length === 1 ? { status: 429, after } : 204);
    install();
    repeat(page, 1);
    await settle();
    repeat(page, 1, "meanwhile");
    await wait(seconds * 1000 - 500);
    assert.equal(page.posts.length, 1);
    await wait(2_000);
    assert.deepEqual(page.reports().map((report) => report.message).sort(), ["Error: again", "Error: again", "Error: meanwhile"]);
  });
}

for (const status of [500, 502, 503]) {
  test(`${status} is tried again after a minute, nothing is lost`, async () => {
    const page = open();
    page.answer = () => (page.posts.length === 1 ? status : 204);
    install();
    repeat(page, 5);
    await wait(59_000);
    assert.equal(page.posts.length, 1);
    await wait(2_000);
    assert.equal(page.posts.length, 2);
    assert.equal(page.posts[1].report.repeat, 5);
  });
}

for (const status of [401, 403]) {
  test(`${status} ends it until the page is loaded again`, async () => {
    const page = open();
    page.answer = () => status;
    const reporter = install({ getToken: () => "t" });
    repeat(page, 1);
    await settle();
    repeat(page, 1, "another");
    reporter.report(same("by hand"));
    await wait(120_000);
    assert.equal(page.posts.length, 1);
    assert.ok(Object.values(page.handlers).every((handlers) => handlers.size === 0));
  });
}

for (const status of [400, 404, 413, 415]) {
  test(`${status} is not tried again, and does not end it`, async () => {
    const page = open();
    page.answer = () => status;
    install();
    repeat(page, 1);
    await wait(120_000);
    repeat(page, 1, "another");
    await wait(120_000);
    assert.equal(page.posts.length, 2);
  });
}

test("without a network it waits, and comes back with the network", async () => {
  const page = open();
  page.answer = () => (navigator.onLine ? 204 : new TypeError("Failed to fetch"));
  install();
  navigator.onLine = false;
  repeat(page, 3);
  await wait(30_000);
  assert.equal(page.posts.length, 1);
  navigator.onLine = true;
  page.fire("online");
  await settle();
  assert.equal(page.posts.length, 2);
  assert.equal(page.posts[1].report.repeat, 3);
});

test("a night without a network costs none of the page's posts", async () => {
  const page = open();
  page.answer = () => (navigator.onLine ? 204 : new TypeError("Failed to fetch"));
  install({ limit: 5 });
  navigator.onLine = false;
  repeat(page, 1);
  await wait(3_600_000);
  navigator.onLine = true;
  page.fire("online");
  await settle();
  assert.equal(page.posts.at(-1).at, 3_600_000);
});

test("an endpoint that always fails gets at most the page's posts", async () => {
  const page = open();
  page.answer = () => new TypeError("Failed to fetch");
  install();
  for (let hour = 0; hour < 3; hour++) {
    for (let n = 0; n < 300; n++) repeat(page, 1, `number ${n}`);
    await wait(3_600_000);
  }
  assert.ok(page.posts.length <= 50, `${page.posts.length}`);
});

test("the token is asked for each time; nothing is sent while there is none", async () => {
  const page = open();
  let token = null;
  install({ getToken: () => token });
  repeat(page, 2);
  await wait(20_000);
  assert.equal(page.posts.length, 0);
  token = "s3ssion";
  await wait(11_000);
  assert.equal(page.posts.length, 1);
  assert.equal(page.posts[0].report.repeat, 2);
  assert.equal(page.posts[0].init.headers.authorization, "Bearer s3ssion");
  assert.equal(page.posts[0].init.credentials, "same-origin");
});

test("a token may be promised, and a promise that breaks is no token", async () => {
  const page = open();
  let calls = 0;
  install({ getToken: async () => (calls++ ? "later" : Promise.reject(new Error("no session"))) });
  repeat(page, 1);
  await wait(70_000);
  assert.equal(page.posts.length, 1);
});

test("a getToken that throws throws at nobody", async () => {
  const page = open();
  install({
    getToken() {
      throw new Error("no");
    },
  });
  repeat(page, 1);
  await wait(200_000);
  assert.equal(page.posts.length, 0);
});

test("without getToken the browser's own credentials go along", async () => {
  const page = open();
  install({ getWorkspace: () => "acme" });
  repeat(page, 1);
  await settle();
  const { credentials, headers, redirect, method, referrerPolicy } = page.posts[0].init;
  assert.deepEqual({ credentials, redirect, method, referrerPolicy }, {
    credentials: "include",
    redirect: "error",
    method: "POST",
    referrerPolicy: "strict-origin",
  });
  assert.deepEqual(headers, { "content-type": "application/json", "x-workspace": "acme" });
});

test("what was counted is sent when the page hides, by beacon where the browser carries the principal", async () => {
  const page = open();
  install();
  repeat(page, 4);
  await settle();
  document.visibilityState = "hidden";
  page.fire("visibilitychange");
  page.fire("pagehide");
  await settle();
  assert.equal(page.posts.length, 1);
  assert.equal(page.beacons.length, 1);
  assert.equal(page.beacons[0].url, "/api/telemetry/errors");
  assert.equal(JSON.parse(page.beacons[0].body).repeat, 3);
});

for (const [name, options] of Object.entries({
  "a token": { getToken: () => "t" },
  "a workspace": { getWorkspace: () => "acme" },
})) {
  test(`with ${name} the page's end uses fetch, since a beacon has no headers`, async () => {
    const page = open();
    install(options);
    repeat(page, 4);
    await settle();
    document.visibilityState = "hidden";
    page.fire("visibilitychange");
    await settle();
    assert.equal(page.beacons.length, 0);
    assert.deepEqual(page.posts.map((post) => [post.report.repeat, post.init.keepalive]), [[1, true], [3, true]]);
  });
}

test("a beacon that the browser refuses is fetched", async () => {
  const page = open();
  navigator.sendBeacon = () => false;
  install();
  repeat(page, 2);
  await settle();
  page.fire("pagehide");
  await settle();
  assert.deepEqual(page.posts.map((post) => [post.report.repeat, post.init.keepalive]), [[1, true], [1, true]]);
});

test("what the server told to wait waits at the page's end too", async () => {
  const page = open();
  page.answer = () => ({ status: 429, after: "30" });
  install();
  repeat(page, 4);
  await settle();
  document.visibilityState = "hidden";
  page.fire("visibilitychange");
  await settle();
  assert.equal(page.posts.length + page.beacons.length, 1);
});

test("keepalive is kept within what the browser grants: 60,000 bytes and 15 posts in flight", async () => {
  const page = open();
  let answer;
  const pending = new Promise((resolve) => (answer = resolve));
  page.answer = () => pending;
  install();
  for (let n = 0; n < 10; n++) page.throws(Object.assign(new Error("한".repeat(5000)), { stack: `${n}${"한글\n".repeat(5000)}` }));
  await settle();
  const alive = page.posts.filter((post) => post.init.keepalive);
  const size = alive.reduce((sum, post) => sum + new TextEncoder().encode(post.init.body).length, 0);
  assert.equal(page.posts.length, 10);
  assert.ok(size <= 60_000, `${size}`);
  assert.ok(alive.length >= 5);
  answer(204);
  await settle();
  await wait(1_500);
  repeat(page, 1, "afterwards");
  await wait(1_500);
  assert.equal(page.posts.at(-1).init.keepalive, true);
});

test("fetch is taken as it was at the start", async () => {
  const page = open();
  install();
  globalThis.fetch = () => assert.fail("a wrapper that came later");
  repeat(page, 1);
  await settle();
  assert.equal(page.posts.length, 1);
});

test("an error that a hook of the page causes while it reports is not reported", async () => {
  const page = open();
  install({
    beforeSend(report) {
      page.throws(new Error("inside beforeSend"));
      return report;
    },
  });
  page.throws(Object.defineProperty(same(), "name", { get: () => page.throws(new Error("inside a getter")) }));
  await wait(15_000);
  assert.deepEqual(page.reports().map((report) => report.message), ["again"]);
});

test("close lets go of everything", async () => {
  const page = open();
  const reporter = install();
  repeat(page, 3);
  await settle();
  reporter.close();
  repeat(page, 1, "another");
  reporter.report(same("by hand"));
  await wait(60_000);
  assert.equal(page.posts.length, 1);
});

test("two instances each report an error once, and neither the other's failures", async () => {
  const page = open();
  page.answer = () => new TypeError("Failed to fetch");
  install();
  install({ endpoint: "/other" });
  repeat(page, 1);
  await wait(30_000);
  assert.deepEqual(page.posts.map((post) => post.url), ["/api/telemetry/errors", "/other"]);
});

test("without options, and where there is no page, it throws nothing", async () => {
  const page = open();
  install(null).report(same());
  await settle();
  assert.equal(page.posts.length, 1);
  for (const name of ["addEventListener", "document", "location", "fetch"]) delete globalThis[name];
  install().report(same());
  await wait(1_000);
});
