// Named functions, so that stacks show them.

function total(order) {
  return order.total;
}

function save() {
  const sum = total(undefined); // no tail call, which WebKit would leave out of the stack
  return sum;
}

/** A TypeError that nobody catches. */
export const error = () => setTimeout(save);

/** A rejection that nobody handles. */
export const rejection = (...reasons) => {
  Promise.reject(reasons.length ? reasons[0] : new RangeError("The window was closed"));
};

/** Anything, thrown. */
export const thrown = (value) =>
  setTimeout(() => {
    throw value;
  });

/** `count` different errors at once. */
export const many = (count, text = "number") => {
  for (let n = 0; n < count; n++) reportError(new Error(`${text} ${n}`));
};

/** So many errors a second for so many seconds; how long the longest pause of the page was, in milliseconds. */
export const storm = (perSecond, seconds, message = (n) => `loop ${n % 2 ? "A" : "B"}`) =>
  new Promise((resolve) => {
    const began = performance.now();
    let [sent, last, longest] = [0, began, 0];
    const tick = () => {
      const now = performance.now();
      longest = Math.max(longest, now - last);
      last = now;
      for (const due = Math.min((now - began) / 1000, seconds) * perSecond; sent < due; sent++) {
        reportError(new Error(message(sent)));
      }
      if (now - began < seconds * 1000) setTimeout(tick);
      else resolve({ sent, longest });
    };
    setTimeout(tick); // so that every error has the same stack, the first as well
  });

/** What a page throws while it goes away. */
export const atTheEnd = (type, ...messages) =>
  addEventListener(type, () => {
    for (const message of messages) reportError(new Error(message));
  });

/** The client of the page anew, with other options. */
export const reinstall = async (options) => {
  reporter.close();
  const { install } = await import("/telemetry/browser.js");
  globalThis.reporter = install(options);
  document.documentElement.dataset.ready = "again";
};

/** What the console is told of "Send feedback", into `globalThis.link`. */
export const askForFeedback = async () => {
  const { feedbackUrl } = await import("/telemetry/feedback.js");
  globalThis.link = await feedbackUrl();
};
