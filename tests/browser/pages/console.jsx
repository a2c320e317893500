// A small React 19 console that breaks in every way that React tells apart.

import * as React from "react";
import { createRoot } from "react-dom/client";
import { install } from "@fleetglass/browser";
import { errorBoundary, rootCallbacks } from "@fleetglass/browser/react";
import { traceId, withTrace } from "@fleetglass/browser/trace";

const reporter = install({ build: process.env.NODE_ENV, getToken: () => "t0ken", traceId });
const Boundary = errorBoundary(React, reporter);
globalThis.heard = [];
addEventListener("error", (event) => globalThis.heard.push(event.message));

function Broken({ how }) {
  if (how === "error") throw new TypeError("The job list is broken");
  if (how === "bare") throw "bare text";
  React.useEffect(() => {
    if (how === "effect") throw new RangeError("The effect is broken");
  });
  return <p>all is well</p>;
}

async function call() {
  const answer = await fetch("/pages/nowhere");
  throw withTrace(new Error(`GET /pages/nowhere answered ${answer.status}`), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
}

function Console() {
  const [how, setHow] = React.useState("");
  const [loose, setLoose] = React.useState(false);
  const [key, setKey] = React.useState(0);
  return (
    <>
      <h1>Jobs</h1>
      <button id="error" onClick={() => setHow("error")}>render</button>
      <button id="bare" onClick={() => setHow("bare")}>bare</button>
      <button id="effect" onClick={() => setHow("effect")}>effect</button>
      <button id="loose" onClick={() => setLoose(true)}>no boundary</button>
      <button id="handler" onClick={() => { throw new Error("The click handler is broken"); }}>handler</button>
      <button id="call" onClick={() => call()}>call</button>
      <button id="mend" onClick={() => { setHow(""); setKey(key + 1); }}>mend</button>
      <Boundary key={key} fallback={(error, retry) => (
        <section role="alert">
          <p>Something went wrong: {String(error?.message ?? error)}</p>
          <button id="retry" onClick={() => { setHow(""); retry(); }}>Try again</button>
        </section>
      )}>
        <Broken how={how} />
      </Boundary>
      {loose && <Broken how="error" />}
    </>
  );
}

createRoot(document.getElementById("root"), rootCallbacks(reporter)).render(<Console />);
document.documentElement.dataset.ready = "";
