// A page as a console's: the client from the service, then things that break. A test may set `options` first.

import { install } from "/telemetry/browser.js";
import * as breaks from "/pages/breaks.js";

globalThis.breaks = breaks;
globalThis.reporter = install({ build: "development", getToken: () => "t0ken", ...globalThis.options });
document.documentElement.dataset.ready = "";
