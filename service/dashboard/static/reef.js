"use strict";

// Milliseconds of silence after which figures count as stale; the service sends a heartbeat at least every 4 s.
const SILENCE_MS = 10000;
// Milliseconds between attempts to reconnect; the last value repeats.
const PAUSES_MS = [500, 1000, 2000, 5000];

const byId = (id) => document.getElementById(id);

// ---------------------------------------------------------------- theme

function toggleTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = document.documentElement.dataset.theme || (dark ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("reef-theme", next);
}

// ---------------------------------------------------------------- fragments

// True if a person is selecting text or typing inside an element.
function isBusyWith(element) {
  const selection = document.getSelection();
  if (selection && !selection.isCollapsed && element.contains(selection.anchorNode)) return true;
  const active = document.activeElement;
  return active !== null && element.contains(active) && /^(INPUT|TEXTAREA|SELECT)$/.test(active.tagName);
}

// Replace the content of a fragment. Focus, open details and scroll positions are kept.
function replaceInside(element, html) {
  const parsed = new DOMParser().parseFromString(html, "text/html");
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const focusedId = focused && focused.id;
  const focusedLink = focused && focused.getAttribute("href");
  const open = new Set([...element.querySelectorAll("details[open][id]")].map((each) => each.id));
  const scrolled = [...element.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
  element.replaceChildren(...parsed.body.childNodes);
  open.forEach((id) => byId(id) && (byId(id).open = true));
  element.querySelectorAll(".scroll").forEach((each, at) => (each.scrollLeft = scrolled[at] || 0));
  if (focused) {
    const again = (focusedId && byId(focusedId)) ||
      [...element.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === focusedLink);
    if (again) again.focus({ preventScroll: true });
  }
}

// Replace one piece of a fragment and highlight it briefly.
function replacePiece(element, html) {
  const parsed = document.createElement("template");
  parsed.innerHTML = html;
  const fresh = parsed.content.firstElementChild;
  const focused = element.contains(document.activeElement);
  const pointedAt = element.matches(":hover") || focused;
  fresh.classList.add("fresh");
  element.replaceWith(fresh);
  const link = fresh.querySelector("a");
  if (focused && link) link.focus({ preventScroll: true });
  if (pointedAt) inspect(link);
}

// ---------------------------------------------------------------- live updates

// `lastBeat` is the time of the last heartbeat, `triedAt` that of the last connection attempt; both in ms.
const live = { source: null, attempts: 0, lastBeat: Date.now(), triedAt: 0, at: "", waiting: new Map(), retry: null };

function say(state, text) {
  const sign = byId("live");
  if (!sign) return;
  if (sign.dataset.state !== state) sign.dataset.state = state;
  if (sign.textContent !== text) sign.textContent = text;
}

function markStale(stale) {
  const notice = byId("stale");
  if (!notice || notice.hidden === !stale) return;
  document.documentElement.toggleAttribute("data-stale", stale);
  notice.hidden = !stale;
  notice.textContent = stale
    ? `Connection lost. The figures below are from ${live.at || "when the page was opened"}. Reconnecting.`
    : "";
}

function disconnect() {
  clearTimeout(live.retry);
  if (live.source) live.source.close();
  live.source = null;
}

function reconnectLater() {
  disconnect();
  say("lost", "Reconnecting");
  live.retry = setTimeout(connect, PAUSES_MS[Math.min(live.attempts, PAUSES_MS.length - 1)]);
  live.attempts += 1;
}

function connect() {
  disconnect();
  const address = byId("main").dataset.stream;
  if (!address) return;
  const source = new EventSource(address);
  live.source = source;
  live.triedAt = Date.now();
  source.addEventListener("part", (event) => {
    const { name, inside } = JSON.parse(event.data);
    live.waiting.set(name, { inside, pieces: new Map() });
    redraw();
  });
  source.addEventListener("pieces", (event) => {
    const { name, pieces } = JSON.parse(event.data);
    if (!live.waiting.has(name)) live.waiting.set(name, { inside: null, pieces: new Map() });
    const waiting = live.waiting.get(name).pieces;
    Object.entries(pieces).forEach(([id, html]) => waiting.set(id, html));
    redraw();
  });
  source.addEventListener("beat", (event) => {
    live.lastBeat = Date.now();
    live.attempts = 0;
    live.at = new Date(JSON.parse(event.data).at).toLocaleTimeString();
    say("on", "Live");
    markStale(false);
    redraw();
  });
  // The browser reconnects by itself, but not after a response that is not a stream, such as 503.
  source.addEventListener("error", () => source === live.source && reconnectLater());
}

function redraw() {
  for (const [name, { inside, pieces }] of live.waiting) {
    const element = byId(name);
    if (element && isBusyWith(element)) continue;
    live.waiting.delete(name);
    if (element && inside !== null) replaceInside(element, inside);
    if (element && inside !== null && name === "map") showFilled();
    pieces.forEach((html, id) => byId(id) && replacePiece(byId(id), html));
  }
}

function watchSilence() {
  if (!byId("live") || document.hidden) return;
  const silent = (since) => Date.now() - since > SILENCE_MS;
  if (!silent(live.lastBeat)) return;
  markStale(true);
  // A connection may be dead without being closed.
  if (live.source && silent(live.triedAt)) reconnectLater();
}

// A hidden page needs no stream: browsers allow six connections to one address.
function followVisibility() {
  if (!byId("main").dataset.stream) return;
  if (document.hidden) {
    disconnect();
    say("waiting", "Paused");
  } else if (!live.source) {
    live.lastBeat = Date.now();
    connect();
  }
}

// ---------------------------------------------------------------- views: another part of the same search

// Address of the page without the fragment: a link within the page does not change it.
const pageOf = (address) => address.pathname + address.search;
let shown = pageOf(location);

async function show(address, push) {
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) return location.assign(address);
  const parsed = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = parsed.getElementById("main");
  const focusedName = document.activeElement && document.activeElement.getAttribute("name");
  if (push) history.pushState(null, "", address);
  shown = pageOf(location);
  live.waiting.clear();
  byId("main").replaceWith(document.adoptNode(fresh));
  document.title = parsed.title;
  showFilled();
  const again = focusedName && byId("main").querySelector(`[data-view] [name="${CSS.escape(focusedName)}"]`);
  if (again) again.focus({ preventScroll: true });
  connect();
}

function submitView(form) {
  const fields = new URLSearchParams(new FormData(form));
  [...fields].forEach(([name, value]) => value === "" && fields.delete(name));
  show(`${form.getAttribute("action")}?${fields}`, true);
}

// ---------------------------------------------------------------- the map

function inspect(target) {
  const panel = byId("inspect");
  if (panel) panel.textContent = target ? target.dataset.inspect : panel.dataset.hint;
}

const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

// Arrow keys go to the next filled tile in their direction.
function walk(event, link) {
  const step = STEPS[event.key];
  if (!step) return;
  let row = link.closest("tr");
  let column = link.closest("td").cellIndex;
  for (;;) {
    if (step[0]) row = step[0] < 0 ? row.previousElementSibling : row.nextElementSibling;
    column += step[1];
    if (!row || column < 1 || column >= row.cells.length) return;
    const next = row.cells[column].querySelector("a");
    if (next) {
      event.preventDefault();
      return next.focus();
    }
  }
}

// Scroll each map so that its filled part is in view, unless a person has scrolled it.
function showFilled() {
  document.querySelectorAll(".scroll:has(.map)").forEach((box) => {
    const links = [...box.querySelectorAll("td a")];
    if (!links.length || box.scrollLeft || box.scrollWidth <= box.clientWidth) return;
    const lead = box.querySelector("tbody th").offsetWidth;
    box.scrollLeft = Math.min(...links.map((each) => each.parentElement.offsetLeft)) - lead - 8;
  });
}

// ---------------------------------------------------------------- curves: the value under the pointer

function readCurve(plot, event) {
  const path = plot.querySelector(".line").getAttribute("d");
  const places = [path.match(/^M([\d.]+)/)[1], ...[...path.matchAll(/H([\d.]+)V/g)].map((each) => each[1])].map(Number);
  const box = plot.getBoundingClientRect();
  const x = (300 * (event.clientX - box.left)) / box.width;
  const at = Math.max(0, places.findLastIndex((place) => place <= x));
  const rule = plot.querySelector(".pointed") || plot.appendChild(document.createElement("div"));
  const reading = plot.querySelector(".reading") || plot.appendChild(document.createElement("span"));
  rule.className = "pointed";
  reading.className = "reading";
  rule.style.left = `${(places[at] / 300) * box.width}px`;
  reading.textContent = `${plot.dataset.values.split("|")[at]} at ${plot.dataset.positions.split("|")[at]}`;
  const left = Math.min((places[at] / 300) * box.width + 6, box.width - reading.offsetWidth);
  reading.style.left = `${Math.max(0, left)}px`;
}

function leaveCurve(plot) {
  plot.querySelectorAll(".pointed, .reading").forEach((each) => each.remove());
}

// ---------------------------------------------------------------- elapsed time

function duration(seconds) {
  const [days, hours, minutes] = [seconds / 86400, (seconds / 3600) % 24, (seconds / 60) % 60].map(Math.floor);
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${Math.floor(seconds)} s`;
}

function tick() {
  document.querySelectorAll("[data-since]").forEach((each) => {
    const seconds = (Date.now() - Date.parse(each.dataset.since)) / 1000;
    if (seconds >= 0 && live.source) each.textContent = duration(seconds);
  });
}

// ---------------------------------------------------------------- on demand: parts that load when they are opened

async function load(details) {
  const place = details.querySelector("[data-load]");
  if (!details.open || !place) return;
  const address = place.dataset.load;
  place.removeAttribute("data-load");
  const answer = await fetch(address);
  if (answer.ok) return replaceInside(place, await answer.text());
  place.textContent = `Loading failed (status ${answer.status}). Reload the page to try again.`;
}

async function copy(button) {
  await navigator.clipboard.writeText(byId(button.dataset.copy).textContent);
  const text = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => (button.textContent = text), 1500);
}

// ---------------------------------------------------------------- wiring

document.addEventListener("click", (event) => {
  const target = event.target.closest("#theme, [data-copy], a[data-keep]");
  if (!target) return;
  if (target.id === "theme") toggleTheme();
  else if (target.dataset.copy) copy(target);
  else if (!event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0) {
    event.preventDefault();
    show(target.getAttribute("href"), true);
  }
});
document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-view]");
  if (form) submitView(form);
});
document.addEventListener("submit", (event) => {
  if (event.target.matches("form[data-view]")) {
    event.preventDefault();
    submitView(event.target);
  }
  const question = event.target.dataset.confirm;
  if (question && !confirm(question)) event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  const link = event.target.closest(".map a");
  if (link) walk(event, link);
});
for (const kind of ["pointerover", "focusin"]) {
  document.addEventListener(kind, (event) => {
    const target = event.target instanceof Element && event.target.closest("[data-inspect]");
    if (target) inspect(target);
  });
}
document.addEventListener("pointermove", (event) => {
  const plot = event.target instanceof Element && event.target.closest(".plot[data-values]");
  document.querySelectorAll(".plot:has(.reading)").forEach((each) => each !== plot && leaveCurve(each));
  if (plot && plot.dataset.values) readCurve(plot, event);
});
document.addEventListener("toggle", (event) => event.target.tagName === "DETAILS" && load(event.target), true);
document.addEventListener("focusout", () => setTimeout(redraw));
document.addEventListener("visibilitychange", followVisibility);
addEventListener("popstate", () => pageOf(location) !== shown && byId("main").dataset.stream && show(location.href, false));
addEventListener("pagehide", disconnect);
addEventListener("pageshow", (event) => event.persisted && followVisibility());
const here = document.querySelector(".top nav [aria-current]");
if (here) here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - 40;
setInterval(watchSilence, 1000);
setInterval(tick, 1000);
showFilled();
if (byId("main").dataset.stream) connect();
