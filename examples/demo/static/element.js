// Text goes into the page as text, never as markup: what is shown here comes from broken pages.

/** element("span", "key", "text") or with children; false and null children are left out. */
export function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children.filter((child) => child !== null && child !== false));
  return made;
}

export const byId = (id) => document.getElementById(id);

export function duration(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  if (ms >= 10) return `${ms.toFixed(0)} ms`;
  return `${ms.toFixed(1)} ms`;
}

export function seconds(value) {
  if (value >= 90) return `${Math.round(value / 60)} min`;
  return value >= 9.95 ? `${Math.round(value)} s` : `${value.toFixed(1)} s`;
}

export const shortId = (traceId) => traceId.slice(0, 8);
