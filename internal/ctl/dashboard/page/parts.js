// Small parts of the page. Texts of the cluster are set as text only, never as HTML.

export const byId = (id) => document.getElementById(id);

// make returns an element with attributes and children; strings become text.
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

// draw returns an SVG element.
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined && value !== "") element.setAttribute(key, value);
  element.append(...children.filter((child) => child !== undefined));
  return element;
}

// setText sets a text that differs, so that a screen reader does not read the same one again.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// showTable replaces the table of a part. A cell is a text, an element, or undefined.
export function showTable(part, heads, rows, empty) {
  const at = byId(part).querySelector("div");
  if (rows.length === 0) return at.replaceChildren(make("p", { class: "empty" }, empty));
  at.setAttribute("role", "region");
  at.setAttribute("aria-label", byId("h-" + part).textContent);
  at.replaceChildren(make("table", {},
    make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell) => make("td", {}, cell ?? "")))))));
}

// Those of the commands.
const marks = { good: "√", warn: "‼", bad: "×", off: "·" };

// mark returns a text with a sign, so that the colour is not the only difference.
export const mark = (kind, text) => make("span", { class: kind }, marks[kind] + " " + text);
export const sign = (kind) => marks[kind];

const units = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40, Pi: 2 ** 50, Ei: 2 ** 60 };

// amount returns the number of a quantity of Kubernetes.
export function amount(quantity) {
  const [, number, unit] = /^([-+0-9.eE]*[0-9.])([a-zA-Z]*)$/.exec(quantity ?? "0") ?? [0, 0, ""];
  return Number(number) * (units[unit] ?? 1);
}

// usage returns the use of resources as meters with text: used of granted.
export function usage(used, granted) {
  const names = Object.keys(granted).sort().filter((name) => ["cpu", "memory", "pods"].includes(name) || amount(used[name]) > 0);
  return make("div", {}, ...names.map((name) => {
    const most = amount(granted[name]), now = amount(used[name]);
    const text = `${name} ${used[name] ?? 0} of ${granted[name]}`;
    return make("div", {}, make("meter", { min: 0, max: most || 1, high: 0.9 * most, optimum: 0, value: Math.min(now, most), "aria-label": text }), text);
  }));
}

export const clock = (time) => make("time", { datetime: time, title: time }, new Date(time).toLocaleTimeString());

// span returns a number of seconds as days, hours or minutes.
export function span(seconds) {
  const s = Math.abs(seconds);
  return s >= 172800 ? Math.round(s / 86400) + " d" : s >= 7200 ? Math.round(s / 3600) + " h" : Math.round(s / 60) + " min";
}
