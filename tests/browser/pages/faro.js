// A console with Grafana's Faro Web SDK as its documentation shows it; only the address and the token are ours.
import * as breaks from "./breaks.js";

const { FetchTransport, getWebInstrumentations, initializeFaro } = globalThis.GrafanaFaroWebSdk;
const { origin = "", ...transport } = globalThis.options ?? {};

globalThis.stacks = [];
addEventListener("error", (event) => stacks.push(event.error.stack));
globalThis.breaks = breaks;
initializeFaro({
  app: { name: "console", version: "1.4.2", environment: "production" },
  user: { email: "ceo@acme.example", username: "ceo" },
  instrumentations: getWebInstrumentations(),
  transports: [
    new FetchTransport({
      url: `${origin}/api/telemetry/faro`,
      requestOptions: { headers: { Authorization: async () => "Bearer t0ken" } },
      ...transport,
    }),
  ],
});
document.documentElement.dataset.ready = "";
