// A console whose service lives at another origin: `service` says where.

import * as breaks from "/pages/breaks.js";

const { install } = await import(`${globalThis.service}/telemetry/browser.js`);
const { feedbackUrl } = await import(`${globalThis.service}/telemetry/feedback.js`);
globalThis.breaks = breaks;
globalThis.reporter = install({ endpoint: `${globalThis.service}/api/telemetry/errors`, ...globalThis.options });
globalThis.feedback = await feedbackUrl(`${globalThis.service}/api/config`);
document.documentElement.dataset.ready = "";
