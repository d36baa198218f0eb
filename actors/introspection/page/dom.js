// DOM elements, and numbers as text. Data from the cluster becomes text nodes or attributes set by name, never markup.

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

function drawn(tag, attributes = {}) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const byId = (id) => document.getElementById(id);

function setText(node, value) {
  const text = String(value);
  if (node.textContent !== text) node.textContent = text;
}

// Makes the children of `parent` match `items`: children with known keys stay, with their focus and animations.
function setChildren(parent, items, keyOf, make, update = () => {}) {
  const before = parent.made ?? new Map();
  const after = new Map();
  let place = parent.firstChild;
  for (const item of items) {
    const key = keyOf(item);
    const child = before.get(key) ?? make(item);
    update(child, item);
    after.set(key, child);
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
  }
  for (const [key, child] of before) if (!after.has(key)) child.remove();
  parent.made = after;
}

// "/job:worker/task:0" as "worker/0".
const shortName = (name) => (name ?? "").replace(/\/job:([^/]+)\/task:(\d+)/g, "$1/$2");

// 12345.6 as "12 346", 1.234 as "1.23".
function number(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size > 0 && size < 1e-4) return value.toExponential(1);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : size >= 0.001 ? 3 : 5;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, digits ? "" : "\u202f");
}

const short = (value) => String(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10);

// At most four characters and a unit.
function scaled(value, step, units) {
  if (!Number.isFinite(value)) return "–";
  let unit = 0;
  while (Math.abs(value) >= step && unit + 1 < units.length) {
    value /= step;
    ++unit;
  }
  return short(value) + (units[unit] && "\u202f" + units[unit]);
}

const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const counted = (count, one, more) => number(count) + " " + (count === 1 ? one : more);
const clamped = (share) => Math.min(1, Math.max(0, share));
const percent = (share) => (Number.isFinite(share) ? Math.round(100 * clamped(share)) + "\u202f%" : "–");
const perSecond = (value, what = number) => (value === undefined ? "–" : what(value) + "/s");

function duration(ns) {
  if (!Number.isFinite(ns)) return "–";
  if (ns < 1e6) return short(ns / 1e3) + "\u202fµs";
  if (ns < 1e9) return short(ns / 1e6) + "\u202fms";
  const seconds = ns / 1e9;
  if (seconds < 60) return short(seconds) + "\u202fs";
  if (seconds < 3600) return Math.floor(seconds / 60) + "\u202fmin " + Math.floor(seconds % 60) + "\u202fs";
  return Math.floor(seconds / 3600) + "\u202fh " + Math.floor((seconds % 3600) / 60) + "\u202fmin";
}

// "42 s", "46 min", "17.4 h", "9.3 d": for estimates.
function roughTime(ns) {
  const minutes = ns / 60e9;
  if (minutes < 1) return Math.round(ns / 1e9) + "\u202fs";
  if (minutes < 60) return Math.round(minutes) + "\u202fmin";
  if (minutes < 48 * 60) return (minutes / 60).toFixed(1) + "\u202fh";
  return scaled(minutes / 1440, 1000, ["", "k", "M"]) + "\u202fd";
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
