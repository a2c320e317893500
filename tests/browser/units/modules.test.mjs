// Trace ids, the feedback link, and React's callbacks without a browser.

import assert from "node:assert/strict";
import { test } from "node:test";
import { feedbackUrl } from "../../../ingest/browser/feedback.js";
import { rootCallbacks } from "../../../ingest/browser/react.js";
import { traceId, traceIdOf, withTrace } from "../../../ingest/browser/trace.js";

const ID = "0af7651916cd43dd8448eb211c80319c";
const PARENT = `00-${ID}-b7ad6b7169203331-01`;
const answer = (timing) => new Response(null, { status: 502, headers: timing ? { "server-timing": timing } : {} });

for (const [name, source, expected] of [
  ["an answer", answer(`traceparent;desc="${PARENT}"`), ID],
  ["headers", answer(`db;dur=5, traceparent;desc=${PARENT}, app`).headers, ID],
  ["a traceparent", PARENT, ID],
  ["an answer without one", answer(), undefined],
  ["another timing", answer('cache;desc="00-hit"'), undefined],
  ["zeros", `00-${"0".repeat(32)}-b7ad6b7169203331-01`, undefined],
  ["upper case", PARENT.toUpperCase(), undefined],
  ["other text", "hello", undefined],
  ["nothing", undefined, undefined],
  ["null", null, undefined],
  ["a number", 7, undefined],
  ["an object that throws", { get headers() { throw new Error("no"); } }, undefined],
]) {
  test(`the trace id of ${name}`, () => assert.equal(traceIdOf(source), expected));
}

test("an error keeps the trace of its call, and what it causes finds it", () => {
  const error = withTrace(new Error("502"), answer(`traceparent;desc="${PARENT}"`));
  assert.equal(traceId(error), ID);
  assert.equal(traceId(new Error("could not pay", { cause: error })), ID);
  assert.equal(traceId(new Error("another")), undefined);
});

test("what can't keep a trace is returned as it is", () => {
  assert.equal(withTrace("text", PARENT), "text");
  assert.equal(withTrace(null, PARENT), null);
  assert.equal(traceId("text"), undefined);
  const circular = new Error("x");
  circular.cause = circular;
  assert.equal(traceId(circular), undefined);
  assert.equal(traceId(new Proxy({}, { get() { throw new Error("no"); } })), undefined);
});

for (const [name, body, expected] of [
  ["https", { feedback_url: "https://ask.example/x" }, "https://ask.example/x"],
  ["mailto", { feedback_url: "mailto:ops@acme.example" }, "mailto:ops@acme.example"],
  ["null", { feedback_url: null }, null],
  ["a script", { feedback_url: "javascript:alert(1)" }, null],
  ["http", { feedback_url: "http://ask.example" }, null],
  ["nothing", {}, null],
]) {
  test(`a feedback address: ${name}`, async () => {
    globalThis.fetch = async (url) => {
      assert.equal(url, "/api/config");
      return Response.json(body);
    };
    assert.equal(await feedbackUrl(), expected);
  });
}

test("no feedback address where the service can't be asked", async () => {
  globalThis.fetch = async () => new Response("<!doctype html>", { status: 502 });
  assert.equal(await feedbackUrl(), null);
  globalThis.fetch = async () => Promise.reject(new TypeError("Failed to fetch"));
  assert.equal(await feedbackUrl("/elsewhere"), null);
});

test("React's callbacks report, then do what was asked or what React would", (context) => {
  const said = [];
  const reporter = { report: (...call) => said.push(["report", ...call]), close() {} };
  const log = context.mock.method(console, "error", (error) => said.push(["console", error]));
  globalThis.reportError = (error) => said.push(["window", error]);
  const error = new Error("x");
  const usual = rootCallbacks(reporter);
  usual.onUncaughtError(error, {});
  usual.onUncaughtError("bare", {});
  usual.onCaughtError(error, {});
  rootCallbacks(reporter, { onUncaughtError: (error) => said.push(["own", error]) }).onUncaughtError(error, {});
  log.mock.restore();
  delete globalThis.reportError;
  assert.deepEqual(said, [
    ["report", error, "react"],
    ["window", error],
    ["report", "bare", "react"],
    ["console", "bare"],
    ["report", error, "react"],
    ["console", error],
    ["report", error, "react"],
    ["own", error],
  ]);
});
