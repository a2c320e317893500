// A page as the client sees it, for Node's test runner: what it posts is kept, its clock is the test's.

import { mock } from "node:test";

export const START = Date.UTC(2026, 10, 30);

/** A fresh page; `page.answer(post)` gives the answer to a post: a status, {status, after}, or an Error. */
export function open() {
  const page = { posts: [], beacons: [], handlers: {}, answer: () => 204 };
  mock.timers.reset();
  mock.timers.enable({ apis: ["setTimeout", "Date"], now: START });
  globalThis.location = { pathname: "/jobs" };
  globalThis.document = { visibilityState: "visible" };
  Object.defineProperty(globalThis, "navigator", {
    configurable: true,
    value: { onLine: true, sendBeacon: (url, body) => page.beacons.push({ url, body }) > 0 },
  });
  globalThis.addEventListener = (type, handle, { signal }) => {
    page.handlers[type] ??= new Set();
    page.handlers[type].add(handle);
    signal.addEventListener("abort", () => page.handlers[type].delete(handle));
  };
  globalThis.fetch = async (url, init) => {
    const post = { url, init, report: JSON.parse(init.body), at: Date.now() - START };
    page.posts.push(post);
    const answer = await page.answer(post);
    if (answer instanceof Error) throw answer;
    const { status, after } = typeof answer === "number" ? { status: answer } : answer;
    return { status, headers: new Headers(after === undefined ? {} : { "retry-after": after }) };
  };
  page.fire = (type, event = {}) => page.handlers[type]?.forEach((handle) => handle(event));
  page.throws = (error) => page.fire("error", { message: "Uncaught", error });
  page.rejects = (reason) => page.fire("unhandledrejection", { reason });
  page.reports = () => page.posts.map((post) => post.report);
  return page;
}

/** Let what was started without being awaited come to its end. */
export const settle = async () => {
  for (let turn = 0; turn < 20; turn++) await null;
};

/** Let so many milliseconds go by, a quarter of a second at a time; in long waits, a second. */
export async function wait(ms) {
  const step = ms > 60_000 ? 1_000 : 250;
  for (let gone = 0; gone < ms; gone += step) {
    mock.timers.tick(Math.min(step, ms - gone));
    await settle();
  }
}
