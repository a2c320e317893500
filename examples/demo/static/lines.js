// The log pane: raw logfmt lines, newest at the bottom, with the trace id as a link.

import { byId, element } from "/static/element.js";

const KEPT = 500;
const PAIR = /([^\s="]+)=("(?:\\.|[^"\\])*"|[^\s"]*)|[^\s]+/g;

const list = byId("lines");
const scroll = byId("lines-scroll");
const newer = byId("newer");

export function setUp(onTrace) {
  // In a frame of its own: changing the layout inside the observer makes it complain of a loop.
  new ResizeObserver(() => requestAnimationFrame(() => [...list.children].forEach(offerFold))).observe(scroll);
  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.trace) onTrace(button.dataset.trace);
    else if (button?.classList.contains("more")) fold(button);
  });
  for (const button of document.querySelectorAll("[data-filter][aria-pressed]")) {
    button.addEventListener("click", () => {
      for (const other of button.parentElement.children) other.setAttribute("aria-pressed", String(other === button));
      list.dataset.filter = button.dataset.filter;
      follow();
    });
  }
  // A link that the keyboard reaches in the folded part of a line opens it.
  list.addEventListener("focusin", ({ target }) => {
    const more = target.closest("li")?.querySelector(".more");
    if (target.dataset.trace && target.matches(":focus-visible") && more && !more.hidden) fold(more, true);
  });
  newer.addEventListener("click", follow);
  scroll.addEventListener("scroll", () => { if (atEnd()) newer.hidden = true; }, { passive: true });
}

/** Show lines of the form {id, line, kind, level, trace_id}; `fresh` ones are marked as just arrived. */
export function show(lines, selected, fresh) {
  if (!lines.length) return;
  const followed = atEnd();
  byId("lines-empty").hidden = true;
  for (const line of lines) {
    const item = row(line, selected, fresh);
    list.append(item);
    offerFold(item);
  }
  while (list.childElementCount > KEPT) list.firstElementChild.remove();
  if (followed) follow();
  else newer.hidden = false;
}

export function clear() {
  list.replaceChildren();
  newer.hidden = true;
  byId("lines-empty").hidden = false;
}

/** Mark the lines of one trace (none for null); `reveal` brings the first of them into view. */
export function select(traceId, reveal) {
  for (const item of list.children) item.classList.toggle("linked", traceId !== null && item.dataset.traceId === traceId);
  const first = list.querySelector(".linked");
  if (reveal && first !== null) scroll.scrollTo({ top: first.offsetTop - 8 });
}

function atEnd() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 24;
}

function follow() {
  scroll.scrollTop = scroll.scrollHeight;
  newer.hidden = true;
}

function fold(button, open) {
  open = button.closest("li").classList.toggle("open", open);
  button.textContent = open ? "Show less" : "Show the whole line";
  button.setAttribute("aria-expanded", String(open));
}

// Only a line that is cut off has more to show; which ones are depends on the width.
function offerFold(item) {
  if (item.classList.contains("open")) return;
  const [text, more] = item.children;
  more.hidden = text.scrollHeight <= text.clientHeight + 1;
}

function row({ line, kind, level, trace_id: traceId }, selected, fresh) {
  const item = element("li", fresh ? "fresh" : "");
  Object.assign(item.dataset, { kind, level, traceId });
  item.classList.toggle("linked", Boolean(traceId) && traceId === selected);
  const text = element("span", "clamp", ...pairs(line));
  item.append(text);
  const more = element("button", "more", "Show the whole line");
  more.type = "button";
  more.setAttribute("aria-expanded", "false");
  item.append(more);
  return item;
}

function* pairs(line) {
  let end = 0;
  for (const match of line.matchAll(PAIR)) {
    if (match.index > end) yield line.slice(end, match.index);
    end = match.index + match[0].length;
    const [whole, key, value] = match;
    if (key === undefined) {
      yield whole === "frontend-error" ? element("span", "event", whole) : whole;
    } else {
      yield element("span", "key", `${key}=`);
      yield styled(key, value);
    }
  }
  if (end < line.length) yield line.slice(end);
}

function styled(key, value) {
  const plain = value.replace(/^"|"$/g, "");
  if (key === "trace_id" && /^[0-9a-f]{32}$/.test(plain)) {
    const button = element("button", "trace-link", value);
    button.type = "button";
    button.dataset.trace = plain;
    button.title = "Show this trace";
    return button;
  }
  if (key === "level" && (plain === "error" || plain === "warning")) return element("span", `level-${plain}`, value);
  if (key === "msg" || key === "message") return element("span", "message", value);
  return value;
}
