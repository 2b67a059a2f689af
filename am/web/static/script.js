// The pages work without this script. It refreshes a page after an event, shows times in the local zone, copies
// texts, ticks all boxes of a table, and checks a request while it is being written.
"use strict";

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

// distance says how far a time is from now, as the server does.
function distance(seconds) {
  const s = Math.abs(seconds);
  if (s < 45) return "now";
  const text = s < 5400 ? Math.round(s / 60) + " min" : s < 129600 ? Math.round(s / 3600) + " h" : Math.round(s / 86400) + " days";
  return seconds > 0 ? "in " + text : text + " ago";
}

const localTime = at => at.toLocaleString([], {weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit", hour12: false,
  year: at.getFullYear() === new Date().getFullYear() ? undefined : "numeric"});

function showTimes(root) {
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    if (isNaN(at)) continue;
    const local = localTime(at);
    if (t.hasAttribute("data-distance")) {
      t.textContent = distance((at - Date.now()) / 1000);
      t.title = local + " here, " + at.toISOString().slice(0, 16).replace("T", " ") + " UTC";
    } else if (!t.title) {
      t.title = t.textContent;
      t.textContent = local;
    }
  }
}

// localAxes puts an axis in the local zone above that of calendars, with its lines in all rows, and writes the times of windows in it.
function localAxes() {
  if (zone === "UTC") return;
  for (const c of document.querySelectorAll(".calendar[data-from]")) {
    const from = +c.dataset.from, until = +c.dataset.until, step = +c.dataset.step;
    const row = c.querySelector("thead tr").cloneNode(true), axis = row.querySelector("svg");
    row.querySelector("th").textContent = "Here";
    row.querySelector("th").title = zone;
    for (const e of axis.querySelectorAll("a, text")) e.remove();
    c.querySelector("thead").prepend(row);
    for (const e of c.querySelectorAll("tr:first-child .tick, tbody .tick")) e.remove();
    const add = (to, name, values) => {
      const e = to.appendChild(document.createElementNS(axis.namespaceURI, name));
      for (const k in values) e.setAttribute(k, values[k]);
      return e;
    };
    const major = step === 2 ? 8 : step === 6 ? 24 : 3 * step;
    for (let t = Math.ceil(from / 900) * 900; t < until; t += 900) {
      const d = new Date(t * 1000), day = 719162 + Math.floor(t / 86400 - d.getTimezoneOffset() / 1440), isMidnight = !d.getHours() && !d.getMinutes();
      if (step < 24 ? d.getMinutes() || d.getHours() % step : !isMidnight || day % (step / 24)) continue;
      const x = 100 * (t - from) / (until - from) + "%", minor = step < 24 ? d.getHours() % major : day % (major / 24);
      for (const to of [axis, ...c.querySelectorAll("tbody td > svg")]) add(to, "line", {x1: x, x2: x, y1: 0, y2: "100%", class: minor ? "tick minor" : "tick"});
      if (t - from > .94 * (until - from)) continue;
      const link = new URLSearchParams(location.search);
      link.set("from", inputTime(d, 0, 16));
      link.set("days", 1);
      add(isMidnight ? add(axis, "a", {href: "?" + link}) : axis, "text", {x, dx: 3, y: 13, class: minor || t - from >= .75 * (until - from) ? "minor" : ""}).textContent =
        isMidnight ? d.toLocaleDateString("en-GB", {weekday: "short", day: "numeric", month: "short"}).replace(",", "") : d.toLocaleTimeString([], {hour: "2-digit", minute: "2-digit", hour12: false});
    }
    const local = text => text.replace(/\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d UTC/g, at => localTime(new Date(at)));
    for (const e of c.querySelectorAll("title")) e.textContent = local(e.textContent);
    for (const e of c.querySelectorAll("td [aria-label]")) e.setAttribute("aria-label", local(e.getAttribute("aria-label")));
  }
}

// swap replaces the parts of the page by those of a newer one. It keeps what the user has written, ticked and opened.
function swap(newer) {
  const written = [];
  for (const part of document.querySelectorAll("[data-part]")) {
    const next = newer.getElementById(part.id);
    if (!next || next.innerHTML === part.dataset.html || (part.id === "notices" && !next.textContent.trim())) continue;
    if (part.contains(document.activeElement) && document.activeElement.matches("input:not([type=checkbox]), textarea, select")) continue;
    const html = next.innerHTML, focused = document.activeElement && document.activeElement.id;
    for (const i of part.querySelectorAll("input[id]:not([type=checkbox]), textarea[id]")) if (i.value !== i.defaultValue) written.push([i.id, i.value]);
    const ticked = new Set([...part.querySelectorAll("input:checked")].map(i => i.name + "=" + i.value));
    const open = new Set([...part.querySelectorAll("details[open][id]")].map(d => d.id));
    part.innerHTML = html;
    part.dataset.html = html;
    for (const i of part.querySelectorAll("input[type=checkbox]")) if (ticked.has(i.name + "=" + i.value)) i.checked = true;
    for (const d of part.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = true;
    if (focused) document.getElementById(focused)?.focus();
  }
  prepare(document);
  for (const [id, value] of written) if (document.getElementById(id)) document.getElementById(id).value = value;
}

const connection = document.getElementById("connection");
function say(text) {
  connection.textContent = text;
  connection.hidden = !text;
}

let ended = false;
async function refresh() {
  try {
    const r = await fetch(location.href, {headers: {"X-Patchbay-Refresh": "1"}});
    if (r.redirected || r.status === 404) return end();
    if (r.ok) swap(new DOMParser().parseFromString(await r.text(), "text/html"));
  } catch { /* the event stream says that there is no connection */ }
}
function end() {
  ended = true;
  say("You are signed out, or this page has ended. Reload it to see what it is now.");
}

function listen() {
  const body = document.body;
  if (!body.dataset.live) return;
  const url = new URL(body.dataset.live, location.href);
  url.searchParams.set("since", body.dataset.revision);
  const stream = new EventSource(url);
  stream.onopen = () => say("");
  stream.onmessage = e => { body.dataset.revision = e.lastEventId; refresh(); };
  stream.addEventListener("end", () => { stream.close(); end(); });
  stream.onerror = () => {
    if (ended) return;
    say("No connection to the site. This page shows what was before; it tries again.");
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 3000);
  };
  addEventListener("pagehide", () => stream.close(), {once: true});
}

// markWide marks the pictures that must be scrolled.
function markWide() {
  for (const p of document.querySelectorAll(".picture")) p.classList.toggle("wide", p.scrollWidth > p.clientWidth + 16);
}
addEventListener("resize", markWide);

// Inputs for times are in the local zone, as all times that are shown; forms send UTC.
const converts = "FormDataEvent" in window;
const inputTime = (at, offset, length) => new Date(at.getTime() - offset * 60000).toISOString().slice(0, length);
function localInputs(root) {
  if (!converts) return;
  for (const i of root.querySelectorAll("input[type=datetime-local]:not([data-local])")) {
    i.dataset.local = "";
    const at = new Date(i.defaultValue + "Z");
    if (!isNaN(at)) i.value = i.defaultValue = inputTime(at, at.getTimezoneOffset(), i.defaultValue.length);
    for (const label of i.labels) for (const zoneName of label.querySelectorAll("[data-zone]")) zoneName.textContent = zone;
  }
}
document.addEventListener("formdata", e => {
  for (const i of e.target.querySelectorAll("input[data-local]")) {
    const at = new Date(i.value);
    if (!isNaN(at)) e.formData.set(i.name, inputTime(at, 0, i.value.length));
  }
}, true);

// A form is sent once, also if its button is pressed twice.
document.addEventListener("submit", e => setTimeout(() => {
  for (const b of e.target.querySelectorAll("button")) {
    b.disabled = true;
    setTimeout(() => b.disabled = false, 3000); // a file was downloaded, or the server does not answer
  }
}));

function prepare(root) {
  showTimes(root);
  localInputs(root);
  for (const b of root.querySelectorAll("[data-copy]")) b.hidden = false;
  for (const i of root.querySelectorAll("input[data-all]")) i.hidden = false;
  markWide();
}

document.addEventListener("click", async e => {
  const b = e.target.closest("[data-copy]");
  if (!b) return;
  const text = b.dataset.copy, was = b.textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch { // no clipboard without https or permission
    const t = document.createElement("textarea");
    t.value = text;
    document.body.append(t);
    t.select();
    document.execCommand("copy");
    t.remove();
  }
  b.textContent = "Copied";
  setTimeout(() => b.textContent = was, 1500);
});

// The line of a mistake is a button that selects it in the text.
document.addEventListener("click", e => {
  const b = e.target.closest("[data-line]"), box = document.querySelector("textarea[name=text]");
  if (!b || !box) return;
  const n = b.dataset.line - 1, lines = box.value.split("\n"), begin = lines.slice(0, n).reduce((sum, line) => sum + line.length + 1, 0);
  box.focus();
  box.setSelectionRange(begin, begin + lines[n].length);
  box.scrollTop = box.scrollHeight * (n - 2) / lines.length;
});

// An experiment has an end, or how long it lasts.
document.addEventListener("change", e => {
  const other = {life: "end", end: "life"}[e.target.id];
  if (other && e.target.value) document.getElementById(other).value = "";
});

// One box ticks all boxes of its form or table.
document.addEventListener("change", e => {
  if (!e.target.matches("input[data-all]")) return;
  for (const i of document.querySelectorAll(`input[name="${e.target.dataset.all}"]`)) i.checked = e.target.checked;
});

// A form with data-check is sent to that URL while it is being written, and the answer is shown in #check.
let timer, sent = 0;
function check(form, delay) {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const mine = ++sent, to = document.getElementById("check");
    try {
      const r = await fetch(form.dataset.check, {method: "POST", body: new URLSearchParams(new FormData(form))});
      const text = await r.text();
      if (mine === sent && r.ok) {
        to.innerHTML = text;
        prepare(to);
        for (const b of form.querySelectorAll("button.primary")) b.disabled = !to.querySelector("[data-can-start]");
      }
    } catch { to.textContent = "The request cannot be checked: there is no connection to the site."; }
  }, delay);
}
document.addEventListener("input", e => {
  const form = e.target.closest("form[data-check]");
  if (form) check(form, 400);
});
document.addEventListener("click", e => {
  const form = e.target.closest("form[data-check]");
  if (!form || !e.target.matches("button[value=check]") || form.elements.begin.value) return; // the site checks a time
  e.preventDefault();
  check(form, 0);
});

// The way back to the answer of a form shows the page with the form, not the browser's question about sending it again.
const page = document.body.dataset.page;
history.replaceState(null, "", page && page !== location.pathname ? page + location.hash : location.href);

if (zone !== "UTC") document.querySelector("footer [data-zone]").textContent = zone + ", and in UTC if you point at them";
prepare(document);
localAxes();
setInterval(() => showTimes(document), 30000);
listen();
