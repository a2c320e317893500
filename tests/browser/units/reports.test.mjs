// What a report says of what was thrown, and what it never says.

import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "../../../ingest/browser/browser.js";
import { open, settle } from "./page.mjs";

const LIMIT = 16_384;

/** The report of one thrown value. */
async function reported(thrown, options) {
  const page = open();
  install(options);
  page.throws(thrown);
  await settle();
  assert.ok(page.posts.length <= 1);
  return page.posts[0]?.report;
}

const error = (message, stack, name = "TypeError") => Object.assign(new Error(message), { name, stack });

test("message, stack, route, kind and build mode are sent by default, and how often; nothing else", async () => {
  const report = await reported(new TypeError("x is undefined"));
  assert.deepEqual(Object.keys(report).sort(), ["build", "kind", "message", "repeat", "stack", "url"]);
  assert.equal(report.message, "TypeError: x is undefined");
  assert.equal(report.url, "/jobs");
  assert.equal(report.build, "production");
  assert.equal(report.repeat, 1);
});

test("release and trace id when the page opted in", async () => {
  const id = "0af7651916cd43dd8448eb211c80319c";
  const report = await reported(new Error("x"), { release: "4.2.0", build: "development", traceId: () => id });
  assert.equal(report.release, "4.2.0");
  assert.equal(report.trace_id, id);
  assert.equal(report.build, "development");
});

test("a traceId that throws costs the trace id, not the report", async () => {
  const report = await reported(new Error("x"), {
    traceId() {
      throw new Error("no");
    },
  });
  assert.equal(report.message, "Error: x");
});

test("stacks of Chrome stay; to those of Firefox and Safari name and message are added", async () => {
  const chrome = "TypeError: x is undefined\n    at save (https://a.example/app.js:10:5)";
  assert.equal((await reported(error("x is undefined", chrome))).stack, chrome);
  const firefox = "save@https://a.example/app.js:10:5\n@https://a.example/app.js:20:1";
  assert.equal((await reported(error("x is undefined", firefox))).stack, `TypeError: x is undefined\n${firefox}`);
  const safari = "save@https://a.example/app.js:10:5\nglobal code@https://a.example/app.js:20:1";
  assert.equal((await reported(error("save", safari))).stack, `TypeError: save\n${safari}`);
});

test("a name that was given after construction is not said twice", async () => {
  const stack = "Error: refused\n    at pay (https://a.example/app.js:1:1)";
  assert.equal((await reported(error("refused", stack, "ApiError"))).stack, stack);
  assert.equal((await reported(error("refused", stack, "ApiError"))).message, "ApiError: refused");
});

test("an error without a message is reported by its name", async () => {
  const report = await reported(new RangeError());
  assert.equal(report.message, "RangeError");
});

const HOSTILE = {
  "a string": ["offline", "offline"],
  zero: [0, "0"],
  "an empty string": ["", '""'],
  false: [false, "false"],
  null: [null, "null"],
  undefined: [undefined, "undefined"],
  NaN: [NaN, "NaN"],
  "a BigInt": [10n, "10"],
  "a Symbol": [Symbol("s"), "Symbol(s)"],
  "Object.create(null)": [Object.create(null), "[object Object] with keys "],
  "a function": [() => 1, /^\(?anonymous|\[object Function\] with keys/],
  "a Proxy with throwing traps": [
    new Proxy({}, { get() { throw new Error("get"); }, ownKeys() { throw new Error("keys"); } }),
    "unreadable value",
  ],
  "a revoked Proxy": [revoked(), "unreadable value"],
  "getters that throw": [
    Object.defineProperty(new Error("x"), "message", { get() { throw new Error("getter"); } }),
    /^Error$|^\[object Error\] with keys /,
  ],
  "a message that is no text": [Object.assign(new Error("x"), { message: { toString: null } }), /^Error$|^\[object Error\] with keys /],
  "form values": [{ password: "s3cret", email: "mina@acme.example" }, "[object Object] with keys password,email"],
};

function revoked() {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  return proxy;
}

for (const [name, [thrown, message]] of Object.entries(HOSTILE)) {
  test(`a rejection with ${name} is reported and nothing is thrown`, async () => {
    const page = open();
    install();
    page.rejects(thrown);
    await settle();
    assert.equal(page.posts.length, 1);
    const said = page.posts[0].report.message;
    if (typeof message === "string") assert.equal(said, message);
    else assert.match(said, message);
    assert.ok(!page.posts[0].init.body.includes("s3cret"));
  });
}

test("cycles do no harm", async () => {
  const cycle = { name: "loop" };
  cycle.self = cycle;
  assert.equal((await reported(cycle)).message, "[object Object] with keys name,self");
});

test("only the first ten keys of an object are told", async () => {
  const many = Object.fromEntries([...Array(1000).keys()].map((key) => [`k${key}`, key]));
  assert.equal((await reported(many)).message.split(",").length, 10);
});

test("a bare value that was thrown is placed by the event", async () => {
  const page = open();
  install();
  page.fire("error", { message: "Uncaught 7", error: 7, filename: "https://a.example/app.js?v=1", lineno: 3, colno: 9 });
  await settle();
  assert.equal(page.posts[0].report.stack, "7\n    at https://a.example/app.js:3:9");
});

test("a script that can't be parsed is placed by the event, in Chrome and in Firefox", async () => {
  for (const stack of ["SyntaxError: Unexpected token ';'", ""]) {
    const page = open();
    install();
    const thrown = error("Unexpected token ';'", stack, "SyntaxError");
    page.fire("error", { message: "Uncaught", error: thrown, filename: "https://a.example/app.js", lineno: 3, colno: 9 });
    await settle();
    assert.equal(page.posts[0].report.stack, "SyntaxError: Unexpected token ';'\n    at https://a.example/app.js:3:9");
  }
});

test("an event that somebody made is reported when it holds an error or a message", async () => {
  const page = open();
  install();
  page.fire("error", { message: "", error: new Error("made") });
  page.fire("error", { message: "Uncaught 0", error: 0 });
  page.fire("error", {});
  await settle();
  assert.deepEqual(page.reports().map((report) => report.message), ["Error: made", "0"]);
});

test("queries, fragments and user info leave message and stack; places in stacks stay", async () => {
  const secret = "https://mina:pw@a.example/pay?token=s3cret#access_token=s3cret";
  const report = await reported(
    error(
      `call of '${secret}' failed (see ${secret}).`,
      `TypeError: call of '${secret}' failed (see ${secret}).\n    at pay (${secret}:10:5)\n    at ${secret}:7:1`,
    ),
  );
  assert.equal(report.message, "TypeError: call of 'https://a.example/pay' failed (see https://a.example/pay).");
  assert.ok(!/s3cret|pw|\?|#/.test(JSON.stringify(report)));
  assert.ok(report.stack.endsWith("at pay (https://a.example/pay:10:5)\n    at https://a.example/pay:7:1"));
});

test("Firefox frames lose their query and keep their place", async () => {
  const report = await reported(error("x", "save@https://a.example/app.js?t=17:10:5\n@https://a.example/#/jobs:2:3"));
  assert.equal(report.stack, "TypeError: x\nsave@https://a.example/app.js:10:5\n@https://a.example/:2:3");
});

test("questions and sharps that stand in no address stay", async () => {
  const said = "What? C# and issue #12: is it 1/2 or not? Minified React error #418; see below";
  assert.equal((await reported(error(said, ""))).message, `TypeError: ${said}`);
});

test("a bare parameter is a query as well", async () => {
  assert.equal((await reported(error("bad ?token=s3cret here", ""))).message, "TypeError: bad  here");
});

for (const [name, filler] of Object.entries({
  ASCII: "a",
  Hangul: "한",
  emoji: "😀",
  "control characters": "\u0001",
  quotes: '"',
  "half surrogates": "\ud83d",
})) {
  test(`a report of ${name} stays within 16 KiB, whole characters and whole lines`, async () => {
    const line = `    at f (https://a.example/${filler.repeat(200)}.js:1:1)\n`;
    const thrown = error(filler.repeat(9_000), line.repeat(400));
    const options = { release: filler.repeat(9999), build: filler.repeat(9999), beforeSend: (r) => ({ ...r, url: filler.repeat(9999) }) };
    const page = open();
    install(options);
    page.throws(thrown);
    await settle();
    const { body } = page.posts[0].init;
    const size = new TextEncoder().encode(body).length;
    assert.ok(size <= LIMIT, `${size}`);
    assert.ok(size > 5000, `${size}`);
    const { message, stack } = page.posts[0].report;
    assert.equal(message, message.toWellFormed());
    assert.ok(stack.endsWith(".js:1:1)"), JSON.stringify(stack.slice(-40)));
    if (filler === "😀") assert.ok(/^(TypeError: )(😀)+$/.test(message));
  });
}

test("a long message leaves room for the frames behind it", async () => {
  const message = "한".repeat(9_000);
  const stack = `TypeError: ${message}\n    at save (https://a.example/app.js:10:5)`;
  const report = await reported(error(message, stack));
  assert.ok(report.stack.endsWith("at save (https://a.example/app.js:10:5)"));
  assert.equal(report.stack.split("\n")[0].length, "TypeError: ".length + 1000);
});

test("half an emoji becomes a replacement character", async () => {
  assert.equal((await reported(error("cut \ud83d here", ""))).message, "TypeError: cut \ufffd here");
});

test("beforeSend edits", async () => {
  const edit = (report) => Object.assign(report, { url: "/jobs/:id", message: report.message.replace("mina", "…") });
  const report = await reported(new Error("no mina"), { beforeSend: edit });
  assert.equal(report.url, "/jobs/:id");
  assert.equal(report.message, "Error: no …");
});

test("what beforeSend adds is not sent, and the kind stays", async () => {
  const report = await reported(new Error("x"), { beforeSend: (r) => ({ ...r, form: { pin: 1 }, kind: "boss", url: 7n }) });
  assert.equal(report.form, undefined);
  assert.equal(report.kind, "error");
  assert.equal(report.url, "7");
});

for (const [name, beforeSend] of Object.entries({
  "gives null": () => null,
  "gives false": () => false,
  "gives nothing": () => {},
  throws() {
    throw new Error("no");
  },
  "gives what can't be read": () => ({ message: Object.create(null) }),
})) {
  test(`a report is dropped when beforeSend ${name}`, async () => {
    assert.equal(await reported(new Error("x"), { beforeSend }), undefined);
  });
}

for (const [name, thrown] of Object.entries({
  "Script error.": "Script error.",
  "a ResizeObserver loop": "ResizeObserver loop limit exceeded",
  "the other ResizeObserver loop": "ResizeObserver loop completed with undelivered notifications.",
  "an extension": error("x", "TypeError: x\n    at chrome-extension://abc/content.js:1:1"),
  "a Firefox extension": error("x", "f@moz-extension://abc/content.js:1:1"),
  "its own endpoint": error("POST https://a.example/api/telemetry/errors failed", ""),
})) {
  test(`${name} is not reported`, async () => {
    assert.equal(await reported(thrown), undefined);
  });
}

test("a message that quotes noise in the middle of a line is reported", async () => {
  assert.ok(await reported(error("it said Script error. twice", "")));
});

test("hostile text costs what it weighs", async () => {
  for (const text of ["?".repeat(20_000), "/".repeat(20_000), `/?${")".repeat(19_000)}x`, "#=".repeat(9_999), "a@".repeat(9_999)]) {
    const began = performance.now();
    await reported(error(text, `TypeError: ${text}`));
    const took = performance.now() - began;
    assert.ok(took < 1000, `${text.slice(0, 4)}: ${took} ms`);
  }
});
