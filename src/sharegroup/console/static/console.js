// The page: what the address asks for, drawn from the JSON under /api/v1. All text from the broker
// is set as text, never as markup.
"use strict";

const main = document.getElementById("main");
const live = document.getElementById("live");
const trouble = document.getElementById("trouble"); // why the page does not follow
const address = new URLSearchParams(location.search);
let acts = false; // whether the page may change something
let token = "1"; // shows that a request is this page's; with a login, the session's

// --- small parts ---------------------------------------------------------------------------------

function element(name, options = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") made.className = value;
    else if (key === "width") made.style.width = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map(
    (child) => (child instanceof Node ? child : document.createTextNode(visible(child)))));
  return made;
}

// Characters that turn the direction of text, or that nobody sees, are shown as what they are.
function visible(value) {
  return String(value).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (character) => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));
}

const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const rate = (values) => (values.length ? values[values.length - 1] : null);

function rateText(values) {
  const last = rate(values);
  if (last === null) return "–";
  return last >= 10 ? Math.round(last).toLocaleString("en") : last.toFixed(1).replace(/\.0$/, "");
}

function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const seconds = Math.max(0, ms / 1000);
  if (seconds < 60) return seconds.toFixed(seconds < 10 ? 1 : 0) + " s";
  if (seconds < 3600) return Math.floor(seconds / 60) + " min " + Math.floor(seconds % 60) + " s";
  if (seconds < 86400) return Math.floor(seconds / 3600) + " h " + Math.floor((seconds % 3600) / 60) + " min";
  return Math.floor(seconds / 86400) + " d " + Math.floor((seconds % 86400) / 3600) + " h";
}

function time(ms) {
  if (ms === null || ms === undefined || ms < 0) return document.createTextNode("–");
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return document.createTextNode(ms + " ms");
  return element("time", { datetime: date.toISOString(), title: date.toISOString() }, moment(date));
}

// A moment in the viewer's zone, which it names: 2026-11-29 08:30:00 UTC, the form that commands print.
function moment(date) {
  return date.toLocaleString("sv", { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit",
    minute: "2-digit", second: "2-digit", timeZoneName: "short" });
}

// A page that does not follow by itself says of when it is, and can be asked for again.
function asOf(again) {
  const there = live.contains(document.activeElement);
  live.className = "";
  live.replaceChildren("as of " + moment(new Date()) + " ", button("Refresh", "refresh", again));
  if (there) live.querySelector("button").focus();
}

function link(text, query) {
  const href = "/?" + new URLSearchParams(query);
  return element("a", { href, "data-key": href }, element("bdi", {}, text));
}

function button(text, key, pressed) {
  const made = element("button", { type: "button", "data-key": key }, text);
  made.addEventListener("click", pressed);
  return made;
}

// Draw anew what has changed meanwhile. Whoever is at a link or a button stays there.
function redraw(where, ...parts) {
  const at = document.activeElement;
  const key = at && at.dataset.key;
  const opened = [...where.querySelectorAll("details[open] > summary")].map((one) => one.dataset.key);
  where.replaceChildren(...parts.filter((part) => part !== null));
  where.querySelectorAll("details > summary").forEach((one) => { if (opened.includes(one.dataset.key)) one.parentElement.open = true; });
  const again = key ? where.querySelector(`[data-key="${CSS.escape(key)}"]`) : where.contains(at) && at;
  if (again) again.focus({ preventScroll: true });
}

// A line through the values, drawn in the space of the style sheet.
function sparkline(values, what) {
  const space = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(space, "svg");
  drawn.setAttribute("class", "spark");
  drawn.setAttribute("viewBox", "0 0 90 22");
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", what + ": " + rateText(values) + " a second");
  if (values.length === 1) values = [values[0], values[0]]; // it has stood still
  const most = Math.max(1, ...values);
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", values.map((value, at) => {
    const x = values.length < 2 ? 90 : 90 * at / (values.length - 1);
    return (at ? "L" : "M") + x.toFixed(1) + " " + (20.5 - 19 * value / most).toFixed(1);
  }).join(""));
  drawn.append(path);
  return drawn;
}

// `columns` are [title, class, what the title means].
function table(columns, rows) {
  const head = element("tr", {}, ...columns.map(([title, kind, meaning]) =>
    element("th", { scope: "col", class: kind, title: meaning }, title)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell, at) =>
    element("td", { class: columns[at][1], "data-title": columns[at][0] }, cell))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": columns[0][0] + "s" },
    element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function numbers(pairs) {
  return element("dl", { class: "numbers" }, ...pairs.map(([title, value]) =>
    element("div", {}, element("dt", {}, title), element("dd", {}, value))));
}

function failure(text) {
  return element("p", { class: "causes", role: "alert" }, text);
}

async function found(answer) {
  const json = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(json.error || answer.statusText), { login: json.login });
  return json;
}

async function ask(path) {
  return found(await reached("/api/v1/" + path));
}

// Browsers say no more than "Failed to fetch".
async function reached(path, how) {
  return fetch(path, how).catch(() => { throw new Error("The console does not answer. Try again."); });
}

async function send(path, given) {
  return found(await reached("/api/v1/" + path, { method: "POST", body: JSON.stringify(given),
    headers: { "content-type": "application/json", "x-sharegroup-act": token } }));
}

// Draw with each view that the broker's events bring. The browser connects again by itself.
function watch(path, draw) {
  const events = new EventSource("/api/v1/events" + path);
  let seen = null;
  const asOfSeen = () => (seen ? ` The page is as of ${moment(seen)}.` : "");
  events.onmessage = (event) => {
    const found = JSON.parse(event.data);
    main.classList.toggle("stale", Boolean(found.error));
    if (found.error) { // what was drawn stays: the next look may succeed
      live.className = "lost";
      live.textContent = "the last look failed, looking again …" + asOfSeen();
      trouble.replaceChildren(failure(found.error));
      return;
    }
    live.className = "";
    live.textContent = "live";
    trouble.replaceChildren();
    seen = new Date();
    if (getSelection().isCollapsed) draw(found); // text that is being selected stays
  };
  events.onerror = () => {
    live.className = "lost";
    live.textContent = "connection lost, trying again …" + asOfSeen();
    main.classList.add("stale");
    trouble.replaceChildren();
    if (events.readyState !== EventSource.CLOSED) return;
    const again = () => setTimeout(() => watch(path, draw), 5000); // refused: there are too many viewers, or …
    ask("about").then(again, (error) => (error.login ? showLogin(error) : again())); // … the session has ended
  };
}

// --- all queues ----------------------------------------------------------------------------------

let wanted = address.get("search") || "";
let listed = null;
let most = 100; // queues that are drawn: a table of thousands would make each scroll stutter

// By status, the worst first, then by name, so that rows keep their places.
function worst(one, other) {
  if (one.status.rank !== other.status.rank) return other.status.rank - one.status.rank;
  return one.group < other.group ? -1 : 1;
}

function badge({ rank, text }) {
  return rank ? element("span", { class: "badge " + (rank > 3 ? "bad" : rank > 1 ? "warn" : "note") }, text) : element("span", { class: "quiet" }, "ok");
}

// How many dead letters are written; those that wait to be are told by the status.
function deadLetters(queue) {
  if (!queue.letters) return number(queue.letters);
  const shared = queue.letters_shared ? { title: "other queues name the same topic for theirs, and its letters are counted together" } : {};
  return element("span", shared, link((queue.letters_shared ? "≤ " : "") + number(queue.letters), { queue: queue.group, show: "dead" }));
}

function drawQueues() {
  const queues = listed.queues.filter((queue) => queue.group.toLowerCase().includes(wanted.toLowerCase()));
  queues.sort(worst);
  const rows = queues.slice(0, most).map((queue) => queue.error
    ? [link(queue.group, { queue: queue.group }), visible(queue.error), "", "", "", "", "", "", "", ""]
    : [
      link(queue.group, { queue: queue.group }), badge(queue.status), number(queue.ready), number(queue.in_flight),
      number(queue.delayed), deadLetters(queue), number(queue.members),
      queue.lag && queue.oldest_ms !== null ? duration(listed.at_ms - queue.oldest_ms) : "–",
      element("span", { class: "rate" }, sparkline(queue.written, "in"), rateText(queue.written)),
      element("span", { class: "rate" }, sparkline(queue.finished, "out"), rateText(queue.finished)),
    ]);
  redraw(document.getElementById("queues"),
    listed.more ? element("p", {}, `asking about ${number(listed.more)} more queues …`) : "",
    queues.length || !listed.queues.length ? "" : element("p", {}, "No queue has that in its name."),
    listed.queues.length ? element("p", { class: "quiet" }, "Sorted by status, the worst first, then by name.") : "",
    listed.queues.length ? table([["queue", "name"], ["status", "status"], ["ready", "number", WORDS.ready], ["held", "number", WORDS.held],
      ["delayed", "number", WORDS.delayed], ["dead letters", "number", WORDS["dead letters"]], ["members", "number"], ["oldest", "number", WORDS.oldest],
      ["in /s", "rates", WORDS["in /s"]], ["out /s", "rates", WORDS["out /s"]]], rows)
      : element("p", {}, "There is no share group yet. A consumer makes one when it joins."),
    queues.length > most ? element("p", {}, `${number(most)} of ${number(queues.length)} queues, the worst first. `,
      button("Show more", "more", () => { most *= 4; drawQueues(); })) : "");
  const others = listed.consumer_groups.filter((one) => one.group.toLowerCase().includes(wanted.toLowerCase()));
  document.getElementById("others").replaceChildren(!others.length ? element("p", {}, "None.") : table([["group", "name"], ["type", ""], ["state", ""]],
    others.map((one) => [element("bdi", {}, one.group), one.type, one.state])));
}

async function showQueues() {
  document.title = "Queues – sharegroup";
  const search = element("input", { type: "search", placeholder: "Find a queue", "aria-label": "Find a queue", value: wanted });
  search.addEventListener("input", () => {
    wanted = search.value;
    history.replaceState(null, "", wanted ? "/?" + new URLSearchParams({ search: wanted }) : "/");
    if (listed) drawQueues();
  });
  main.replaceChildren(element("h1", {}, "Queues"), search, element("div", { id: "queues" },
    element("p", { class: "quiet" }, "asking the broker …")),
  element("h2", {}, "Consumer groups"), element("div", { id: "others" }),
  element("h2", {}, "Topics"), acts ? element("div", { class: "buttons" }, button("Create a topic …", "create-topic", () =>
    askFirst("Create", "create-topic", {}, [{ name: "topic", label: "Name", required: true }, { name: "partitions", label: "Partitions", value: 1, kind: "number", required: true }], listTopics))) : "",
  element("div", { id: "topics" }));
  watch("", (found) => { listed = found; drawQueues(); if (!topicsListed) listTopics().catch(failed); });
  await listTopics();
}

let topicsListed = true; // or they are listed with the next view of the queues

async function listTopics() {
  const space = document.getElementById("topics");
  topicsListed = true;
  const { topics } = await ask("topics").catch((error) => {
    if (error.login) throw error;
    topicsListed = false;
    space.replaceChildren(failure(error.message));
    return {};
  });
  if (topics) space.replaceChildren(table([["topic", "name"], ["partitions", "number"]],
    topics.map((one) => [element("span", {}, link(one.topic, { topic: one.topic }), one.internal ? element("span", { class: "quiet" }, " internal") : null), number(one.partitions)])));
}

async function showTopic(topic) {
  document.title = visible(topic) + " – sharegroup";
  const found = await ask("topic?" + new URLSearchParams({ topic }));
  const again = () => showTopic(topic).catch(failed);
  asOf(again);
  main.replaceChildren(...[
    element("h1", {}, element("bdi", {}, topic)),
    found.internal ? element("p", { class: "quiet" }, "Internal: sharegroup keeps its own data here.") : null,
    acts && !found.internal ? element("div", { class: "buttons" }, button("Delete …", "delete-topic", () =>
      askFirst("Delete", "delete-topic", { topic }, [{ name: "typed", label: "Type the topic's name to delete it", same: topic }], () => { location.href = "/"; }))) : null,
    table([["partition", "number"], ["first", "number"], ["end", "number"], ["records", "number"], ["leader", "number"]],
      found.partitions.map((one) => [number(one.partition),
        one.end > one.start ? link(number(one.start), { topic, partition: one.partition, offset: one.start }) : number(one.start),
        one.end > one.start ? link(number(one.end), { topic, partition: one.partition, offset: one.end - 1 }) : number(one.end),
        number(one.end - one.start), number(one.leader)])),
    offsetField({ partitions: found.partitions.map((one) => ({ topic, partition: one.partition })) }),
    element("h2", {}, "Settings"),
    found.settings_missing ? element("p", { class: "quiet" }, found.settings_missing) : settings(found.settings, "topic", topic, again),
  ].filter((part) => part !== null));
}

// --- one queue -----------------------------------------------------------------------------------

const STATES = ["available", "acquired", "delayed", "acknowledged", "archived", "archiving", "blocked"];
const NAMES = { available: "ready again", acquired: "held", acknowledged: "accepted", archived: "given up", archiving: "letter waiting" };
const MEANINGS = { available: "was delivered, and waits for another delivery", acquired: "with a member", delayed: "rests until it is due",
  acknowledged: "done", archived: "failed for good", archiving: "failed for good, and its dead letter is not written yet", blocked: "failed, and waits for an operator" };
const UNFINISHED = ["acquired", "blocked", "archiving", "delayed", "available"];
const OPEN = [...UNFINISHED, "ready"]; // of one record
const UNFINISHED_MAX = 100;
const nameOf = (state) => NAMES[state] || state;
const times = (count) => (count === 1 ? "once" : count === 2 ? "twice" : `${number(count)} times`);
const WORDS = {
  state: "Stable: the group has members. Empty: it has none",
  ready: "records that the next member that asks gets; marks of transactions count, too",
  held: "records that members have and have not answered",
  delayed: "records that rest until they are due",
  "dead letters": "records that failed for good and stand in the dead-letter topic, neither redriven nor purged",
  "letters waiting": "records that failed for good and whose dead letter cannot be written yet",
  oldest: "age of the oldest record that is not finished",
  "in /s": "records written a second",
  "out /s": "records finished a second: accepted or given up",
  window: "the records from the first that is not finished to the last that was delivered",
  "first open": "the first record that is not finished",
  "lock ends": "when the first of its locks ends; a lock that is not renewed lets the record go to another member",
};

function glossary() {
  return element("details", {}, element("summary", { "data-key": "words" }, "What the words mean"),
    element("dl", { class: "words" }, ...[...Object.entries(WORDS), ...STATES.map((one) => [nameOf(one), MEANINGS[one]])].flatMap(
      ([word, meaning]) => [element("dt", {}, word), element("dd", {}, meaning)])));
}

const span = (one) => (one.first === one.last ? `${one.first}` : `${one.first}–${one.last}`);

function strip(queue, partition) {
  const all = partition.ranges.reduce((sum, one) => sum + one.last - one.first + 1, 0);
  const parts = partition.ranges.map((one) => {
    const size = one.last - one.first + 1;
    const said = [`${span(one)}: ${nameOf(one.state)}`];
    if (one.deliveries) said.push(`delivered ${times(one.deliveries)}`);
    if (one.member) said.push(`with ${one.member}`);
    if (one.lock_ms !== null) said.push(`${duration(one.lock_ms)} left`);
    if (one.reason) said.push(one.reason);
    const drawn = element("i", { class: one.state, width: (100 * size / all) + "%", title: visible(said.join(", ")) });
    if (acts) drawn.addEventListener("click", () => decide(queue.group, partition, one.first, one.last));
    return drawn;
  });
  return element("div", { class: "strip", role: "img", "aria-label": parts.length
    ? partition.ranges.slice(0, 20).map((one) => `${span(one)} ${nameOf(one.state)}`).join(", ") : "nothing in flight" }, ...parts);
}

// Throughput and lag over the last minutes. The drawings stay while the page is drawn anew.
const charts = element("div", { class: "charts" });
let drawn = null;

const chartSize = () => ({ width: Math.max(260, Math.min(460, main.clientWidth - 34)), height: 170 });
new ResizeObserver(() => { if (drawn) drawn.forEach((one) => one.setSize(chartSize())); }).observe(main);

function chart(title, series, values) {
  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
  return new uPlot({ title, ...chartSize(), cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (self, low, high) => [0, Math.max(1, high)] } }, axes: [{ ...axis, space: 80, values: (self, all) => all.map((at) => new Date(at * 1000).toLocaleTimeString("sv")) }, { ...axis, size: 60 }], legend: { live: false },
    series: [{}, ...series.map(([label, name]) => ({ label, stroke: color(name), width: 2, points: { show: false } }))] }, values, charts);
}

const GAP_S = 15; // nobody has looked for so long: what was in between is not known, and no line is drawn

function withGaps(at, columns) {
  const found = [at, ...columns].map(() => []);
  const add = (row) => row.forEach((value, column) => found[column].push(value));
  at.forEach((moment, place) => {
    if (place && moment - at[place - 1] > GAP_S) add([at[place - 1] + 1, ...columns.map(() => null)]);
    add([moment, ...columns.map((one) => one[place])]);
  });
  return found;
}

function drawCharts(history) {
  const at = history.at_ms.map((ms) => ms / 1000);
  const [rates, lag] = [withGaps(at, [history.written, history.finished, history.redelivered]), withGaps(at, [history.lag])];
  if (!drawn) drawn = [chart("records a second", [["in", "--acquired"], ["out", "--acknowledged"], ["delivered again", "--delayed"]], rates), chart("not finished", [["records", "--archived"]], lag)];
  drawn[0].setData(rates);
  drawn[1].setData(lag);
  return charts;
}

function tabs(group, current) {
  return element("nav", { class: "tabs", "aria-label": "Parts of the queue" },
    element("a", { href: "/?" + new URLSearchParams({ queue: group }), "aria-current": current === "now" && "page" }, "Now"),
    element("a", { href: "/?" + new URLSearchParams({ queue: group, show: "dead" }), "aria-current": current === "dead" && "page" }, "Dead letters"));
}

// Who holds records: the member's id is what its worker says at its start, and what "Members" lists.
function holderOf({ client, host, member }) {
  return client === null ? element("span", {}, "a member that has left")
    : element("span", { title: `member ${member}` }, element("bdi", {}, client), " at ", element("bdi", {}, host.replace(/^\//, "")), " ", element("code", {}, member.slice(0, 8)));
}

// One record that a member holds, in words.
function heldText(group, one) {
  const place = { topic: one.topic, partition: one.partition, offset: one.first, group };
  return [link(`${one.topic}:${one.partition}@${span(one)}`, place), ` ${one.first === one.last ? "is" : "are"} held `, ...heldFor(one), " by ", holderOf(one),
    one.renewals ? `, lock renewed ${times(one.renewals)}` : "", one.first === one.last ? "" : "; one of them may keep the others waiting"];
}

function heldFor(one, now = Date.now()) {
  return [one.exact ? "for " : "for at least ", duration(now - one.since_ms)];
}

function warnings(queue) {
  const stuck = queue.held.filter((one) => one.too_long || one.client === null);
  const lines = [...queue.causes.map((one) => element("li", {}, one)), ...stuck.slice(0, 10).map((one) => element("li", {}, ...heldText(queue.group, one)))];
  if (stuck.length > 10) lines.push(element("li", {}, `${number(stuck.length - 10 + queue.more_held)} more, below`));
  return lines.length ? element("ul", { class: "causes" }, ...lines) : null;
}

// The records that are not finished, each range a row, the longest held first.
function unfinished(queue) {
  const held = queue.held.map((one) => ({ ...one, state: "acquired", lock_ms: one.until_ms - queue.at_ms }));
  const others = queue.partitions.flatMap((at) => at.ranges.filter((one) => UNFINISHED.includes(one.state) && (one.state !== "acquired" || !one.member)).map(
    (one) => ({ ...one, topic: at.topic, partition: at.partition })));
  others.sort((one, other) => UNFINISHED.indexOf(one.state) - UNFINISHED.indexOf(other.state));
  const all = [...held, ...others];
  const who = (one) => ("client" in one ? holderOf(one) : "–");
  const columns = [["records", "name"], ["state", ""], ["held by", "", "its log begins with the member's id"], ["held", ""], ["left", "number", "until the lock ends, or until the records are due"], ["deliveries", "number"], ["reason", "wide"], ...(acts ? [["act", ""]] : [])];
  return [element("h2", {}, "Unfinished records"),
    all.length ? table(columns, all.slice(0, UNFINISHED_MAX).map((one) => [
      link(`${one.topic}:${one.partition}@${span(one)}`, { topic: one.topic, partition: one.partition, offset: one.first, group: queue.group }),
      nameOf(one.state), who(one), element("span", {}, ...(one.since_ms ? heldFor(one, queue.at_ms) : ["–"])), duration(one.lock_ms), number(one.deliveries), one.reason ?? "",
      ...(acts ? [button("Decide …", `decide ${one.topic} ${one.partition} ${one.first}`, () => decide(queue.group, one, one.first, one.last))] : [])]))
      : element("p", {}, "None was delivered and is not finished."),
    all.length > UNFINISHED_MAX ? element("p", { class: "quiet" }, `${number(all.length - UNFINISHED_MAX)} more`) : null];
}

// Records that failed for good and have no letter. The broker remembers the latest.
function givenUp(queue) {
  if (!queue.given_up.length) return [];
  const rows = queue.given_up.slice().reverse();
  return [element("h2", {}, "Given up lately"), table([["records", "name"], ["deliveries", "number"], ["cause", "wide"]],
    rows.map((one) => [link(`${one.topic}:${one.partition}@${span(one)}`, { topic: one.topic, partition: one.partition, offset: one.first, group: queue.group }), number(one.deliveries), one.reason_said]))];
}

// Opens the record of an offset. The field stays while the page is drawn anew.
let finder = null;

// `queue` has partitions, and perhaps a group.
function offsetField(queue) {
  const places = queue.partitions.map((one) => `${one.topic}:${one.partition}`);
  if (!places.length) return null;
  if (finder && finder.places === places.join()) return finder.form;
  const place = element("select", { "aria-label": "Partition" }, ...places.map((one, at) => element("option", { value: at }, one)));
  const offset = element("input", { type: "number", min: 0, "aria-label": "Offset", placeholder: "offset", required: true });
  const form = element("form", { class: "filter" }, place, offset, element("button", { type: "submit" }, "Show the record"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const one = queue.partitions[Number(place.value)];
    location.href = "/?" + new URLSearchParams({ topic: one.topic, partition: one.partition, offset: offset.value, ...(queue.group ? { group: queue.group } : {}) });
  });
  finder = { places: places.join(), form };
  return form;
}

function drawQueue(queue) {
  const oldest = queue.lag && queue.oldest_ms !== null ? duration(queue.at_ms - queue.oldest_ms) : "–";
  const partitions = queue.partitions.map((one) => [
    link(`${one.topic}:${one.partition}`, { topic: one.topic, partition: one.partition, offset: one.start ?? 0, group: queue.group }),
    number(one.start), number(one.end), number(one.lag), number(one.in_flight),
    one.error ? visible(one.error) : element("div", {}, strip(queue, one), one.more_ranges ? `${number(one.more_ranges)} ranges more` : ""),
    ...(acts ? [button("Decide …", `decide ${one.topic} ${one.partition}`, () => decide(queue.group, one, one.start ?? 0, one.start ?? 0))] : []),
  ]);
  const lines = [[queue.paused ? queue.state + ", paused" : queue.state, "state"], [number(queue.ready), "ready"], [number(queue.in_flight), "held"],
    [number(queue.delayed), "delayed"], [deadLetters(queue), "dead letters"], [number(queue.dead), "letters waiting"], [oldest, "oldest"], [rateText(queue.written), "in /s"], [rateText(queue.finished), "out /s"]];
  redraw(main, ...[
    element("h1", {}, element("bdi", {}, queue.group), " ", queue.status.rank ? badge(queue.status) : ""), tabs(queue.group, "now"),
    actsOf(queue),
    warnings(queue),
    numbers(lines.map(([value, title]) => [title, value])),
    queue.history.at_ms.length > 1 ? drawCharts(queue.history) : null,
    element("h2", {}, "Partitions"),
    queue.states_missing ? element("p", { class: "quiet" }, queue.states_missing) : null,
    element("ul", { class: "legend" }, ...STATES.map((state) => element("li", {}, element("i", { class: state }), `${nameOf(state)}: ${MEANINGS[state]}`))),
    table([["partition", "name"], ["first open", "number", WORDS["first open"]], ["end", "number"], ["not finished", "number"], ["held", "number", WORDS.held], ["window", "", WORDS.window], ...(acts ? [["act", ""]] : [])], partitions),
    offsetField(queue),
    ...unfinished(queue),
    ...givenUp(queue),
    element("h2", {}, "Members"),
    queue.members.length ? table([["member", "name"], ["client", ""], ["host", ""], ["partitions", "wide"], ["holds", "number"], ["lock ends", "number", WORDS["lock ends"]], ["last heard of", "", "of a member that has missed a heartbeat"]],
      queue.members.map((one) => [element("bdi", {}, one.member), element("bdi", {}, one.client), one.host, one.partitions.join(", "), number(one.holds), one.shortest_lock_ms === null ? "–" : "in " + duration(one.shortest_lock_ms),
        one.silent_ms === null ? "" : element("span", { class: "badge bad" }, duration(one.silent_ms) + " ago")]))
      : element("p", {}, "No member."),
    element("h2", {}, "Settings"),
    queue.settings_missing ? element("p", { class: "quiet" }, queue.settings_missing) : settings(queue.settings, "group", queue.group),
    glossary(),
  ].filter((part) => part !== null));
}

function showQueue(group) {
  document.title = visible(group) + " – sharegroup";
  main.replaceChildren(element("h1", {}, element("bdi", {}, group)), element("p", { class: "quiet" }, "asking the broker …"));
  watch("?" + new URLSearchParams({ group }), drawQueue);
}

// How many letters failed when, as bars.
function bars(letters) {
  const times = letters.map((one) => one.failed_ms).filter((ms) => ms !== null && ms >= 0);
  if (times.length < 2) return null;
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const step = Math.max(1, (last - first) / 60);
  const counts = new Array(60).fill(0);
  times.forEach((ms) => { counts[Math.min(59, Math.floor((ms - first) / step))] += 1; });
  const space = "http://www.w3.org/2000/svg";
  const drawn = document.createElementNS(space, "svg");
  drawn.setAttribute("class", "bars");
  drawn.setAttribute("viewBox", "0 0 600 60");
  drawn.setAttribute("role", "img");
  drawn.setAttribute("aria-label", `${times.length} letters from ${moment(new Date(first))} to ${moment(new Date(last))}`);
  const most = Math.max(...counts);
  counts.forEach((count, at) => {
    if (!count) return;
    const bar = document.createElementNS(space, "rect");
    const height = Math.max(2, 58 * count / most);
    for (const [name, value] of Object.entries({ x: at * 10, y: 60 - height, width: 9, height })) bar.setAttribute(name, value);
    const title = document.createElementNS(space, "title");
    title.textContent = `${count} from ${moment(new Date(first + at * step))}`;
    bar.append(title);
    drawn.append(bar);
  });
  return element("div", {}, drawn, element("p", { class: "quiet ends" }, time(first), element("span", {}, " to "), time(last)));
}

// The dead letters are read again by each call; an expression that is wrong leaves those that are shown.
async function showDead(group, where) {
  document.title = visible(group) + ": dead letters – sharegroup";
  const filter = element("input", { type: "search", value: where, "aria-label": "Only letters for which this is true",
    placeholder: 'cause == "rejected" and age < 2d' });
  const form = element("form", { class: "filter" }, filter, element("button", { type: "submit" }, "Filter"));
  const said = element("div", { "aria-live": "polite" }, element("p", { class: "quiet" }, "reading the letters …"));
  const letters = element("div", { id: "letters" });
  const read = async (chosen) => {
    try {
      const found = await ask("dead?" + new URLSearchParams({ group, ...(chosen ? { where: chosen } : {}) }));
      form.hidden = found.missing !== null;
      said.replaceChildren();
      drawLetters(letters, group, chosen, found, again, typed);
      asOf(again);
    } catch (error) {
      if (error.login) throw error;
      said.replaceChildren(failure(error.message), element("p", { class: "quiet" }, HINT), element("p", { class: "quiet" }, "The letters below are not chosen by it."));
      if (!letters.querySelector("table")) drawLetters(letters, group, "", await ask("dead?" + new URLSearchParams({ group })), again, typed);
      letters.querySelectorAll(":scope > .buttons > *").forEach((one) => one.remove()); // nothing is done that was not asked for
    }
  };
  const again = () => read(where).catch(failed);
  const typed = () => filter.value;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    where = filter.value;
    history.replaceState(null, "", "/?" + new URLSearchParams({ queue: group, show: "dead", ...(where ? { where } : {}) }));
    again();
  });
  main.replaceChildren(element("h1", {}, element("bdi", {}, group)), tabs(group, "dead"), form, said, letters);
  await read(where);
}

const HINT = 'Write == for "is", matches for a pattern within a text, and texts in quotes, such as: cause == "released", message matches "refused", age < 2d. The fields are topic, partition, offset, cause, message, member, deliveries, failed, age, key and headers.';

// `typed` returns the expression in the field, which may not have been asked for yet.
function drawLetters(space, group, where, found, again, typed) {
  if (found.missing) {
    space.replaceChildren(found.waiting ? element("p", { class: "causes" }, found.waiting) : "", element("p", {}, found.missing), element("p", {}, link("To the queue, its settings and “Set up dead letters …”", { queue: group })));
    return;
  }
  const only = (one) => `topic == "${one.topic}" and partition == ${one.partition} and offset == ${one.offset}`;
  const wherever = (value) => ({ name: "where", label: "Only letters for which this is true", value });
  const redrive = (value) => askFirst("Redrive", "redrive", { group }, [wherever(value), { name: "to", label: "To another topic (empty: where they are from)" }], again);
  const purge = (value) => askFirst("Purge letters", "purge-letters", { group }, [wherever(value)], again);
  const many = (text, key, pressed) => {
    const made = button(text, key, () => pressed(typed()));
    made.disabled = !found.letters.length;
    return made;
  };
  const columns = [["letter", "", "its partition and offset in the dead-letter topic"], ["record", "name"], ...(acts ? [["act", ""]] : []), ["failed", ""], ["deliveries", "number"], ["cause", "wide"], ["message", "wide"], ["key", "wide"], ["value", "wide"]];
  const row = (one) => [link(one.letter, { topic: one.letter_topic, partition: one.letter.split(":")[0], offset: one.letter.split(":")[1] }), link(`${one.topic}:${one.partition}@${one.offset}`, { topic: one.topic, partition: one.partition, offset: one.offset, group }),
    ...(acts ? [element("span", { class: "pair" }, button("Redrive …", "redrive " + one.letter, () => redrive(only(one))), button("Purge …", "purge " + one.letter, () => purge(only(one))))] : []),
    time(one.failed_ms), number(one.deliveries), element("span", { title: one.cause }, one.cause_said ?? "–"), one.message ?? "–", ...[one.key, one.value].map((shown) => shown.text + (shown.cut ? "…" : ""))];
  const byTime = bars(found.letters);
  redraw(space, found.waiting ? element("p", { class: "causes" }, found.waiting) : "", element("div", { class: "buttons" },
    acts ? many("Redrive …", "redrive", redrive) : "", acts ? many("Purge letters …", "purge-letters", purge) : "",
    found.letters.length ? element("a", { class: "button", href: "/api/v1/letters?" + new URLSearchParams({ group, ...(where ? { where } : {}) }), download: "" }, "Export as JSON lines") : ""),
  ...(found.letters.length ? [
    found.more ? element("p", { class: "quiet" }, `What follows is of the oldest ${number(found.letters.length)} letters; there are more. A filter such as age < 10m finds the newest, and “Redrive …” says how many there are.`) : "",
    element("h2", {}, "By cause"), table([["cause", "name"], ["message", "wide"], ["letters", "number"]],
      found.causes.map((one) => [element("span", { title: one.cause }, link(one.cause_said ?? "–", { queue: group, show: "dead", where: one.where })), one.message ?? "–", number(one.letters)])),
    ...(byTime ? [element("h2", {}, "By time"), byTime] : []),
    element("h2", {}, "Letters"), table(columns, found.letters.map(row)),
  ] : [element("p", {}, where ? "No dead letter for which this is true. Letters that were redriven or purged are not shown." : "No dead letter is written that was not redriven or purged.")]));
}

// --- one record ----------------------------------------------------------------------------------

function payload(title, shown) {
  const size = shown.form === "null" ? "null" : `${number(shown.size)} bytes, ${shown.form}` + (shown.cut ? ", the beginning" : "");
  return [element("h2", {}, title, " ", element("span", { class: "quiet" }, size)), shown.form === "null" ? null : element("pre", { tabindex: 0 }, shown.text)];
}

// What the console's --decoder makes of the value.
function decodedValue(decoded) {
  if (!decoded) return [];
  if (decoded.error) return [element("h2", {}, "Decoded"), failure(decoded.error)];
  return payload("Decoded", decoded);
}

function lifeOf(life, found, again) {
  const told = [["state", nameOf(life.state)], ["deliveries", life.deliveries === null ? "–" : number(life.deliveries) + (OPEN.includes(life.state) ? ` of ${life.limit ?? "–"}` : "")]];
  const held = life.held;
  if (held) {
    told.push(["held by", holderOf(held)]);
    told.push(["held", element("span", {}, ...heldFor(held, life.at_ms))]);
    told.push(["since", element("span", {}, held.exact ? null : "before ", time(held.since_ms))]);
    told.push(["lock renewed, as far as this page has seen", times(held.renewals)]);
  } else if (life.member) told.push(["held by", life.member]);
  if (life.lock_ms !== null) told.push([held ? "lock ends, unless renewed, in" : "time left", duration(life.lock_ms)]);
  if (life.reason) told.push(["reason", life.reason_said]);
  const letter = `topic == "${found.topic}" and partition == ${found.partition} and offset == ${found.offset}`;
  return [element("h2", {}, "In ", link(life.group, { queue: life.group })), numbers(told), element("p", {}, life.next),
    life.state === "archived" && life.letters ? element("p", {}, link("Its dead letter", { queue: life.group, show: "dead", where: letter }), ", unless it was redriven or purged.") : null,
    life.state === "finished" && life.letters ? element("p", {}, link("Its dead letter, if it has one", { queue: life.group, show: "dead", where: letter }), ".") : null,
    acts && OPEN.includes(life.state) ? element("div", { class: "buttons" },
      button("Decide …", "decide", () => decide(life.group, found, found.offset, found.offset, again))) : null];
}

// What the header says that a redrive gives to a record.
function redriven(headers) {
  const told = headers.find((one) => one.name === "sharegroup.redriven");
  return told ? `, redriven ${times(Number(told.text))}: it is a copy of a record that had failed for good` : null;
}

// A record that is a dead letter leads to its record, and to where it is redriven.
function letterOf(headers) {
  const said = (name) => (headers.find((one) => one.name === "__dlq.errors." + name) || {}).text;
  const [group, topic, partition, offset] = ["group", "topic", "partition", "offset"].map(said);
  if (!group || !topic || !offset) return null;
  const where = `topic == "${topic}" and partition == ${partition} and offset == ${offset}`;
  return element("p", {}, "A dead letter of ", link(group, { queue: group }), " about ", link(`${topic}:${partition}@${offset}`, { topic, partition, offset, group }),
    ". ", link("Redrive or purge it", { queue: group, show: "dead", where }), ", unless that was done.");
}

const LOOK_AGAIN_MS = 2000; // at a record that is not finished
let nextLook = null;

// Look again at a record that may still change, unless nobody looks, or text is being selected.
function follow(again) {
  clearTimeout(nextLook);
  live.className = "";
  live.textContent = "live";
  nextLook = setTimeout(() => (document.hidden || !getSelection().isCollapsed ? follow(again) : again()), LOOK_AGAIN_MS);
}

async function showRecord(topic, partition, offset, group) {
  document.title = visible(`${topic}:${partition}@${offset}`) + " – sharegroup";
  const title = element("h1", {}, element("bdi", {}, topic), `:${partition}@${offset}`);
  if (!main.childElementCount) main.replaceChildren(title, element("p", { class: "quiet" }, "asking the broker …"));
  const query = { topic, partition, offset, ...(group ? { group } : {}) };
  const again = () => showRecord(topic, partition, offset, group).catch(failed);
  const neighbours = (next) => element("nav", { class: "tabs", "aria-label": "Neighbours" },
    Number(offset) > 0 ? link("previous", { ...query, offset: Number(offset) - 1 }) : null, next === null ? null : link("next", { ...query, offset: next }));
  let found;
  try {
    found = await ask("record?" + new URLSearchParams(query));
  } catch (error) {
    if (error.login) throw error;
    asOf(again);
    main.replaceChildren(title, failure(error.message), neighbours(null));
    return;
  }
  if (found.life && OPEN.includes(found.life.state)) follow(again);
  else asOf(again);
  redraw(main, ...[
    title,
    letterOf(found.headers),
    found.offset === Number(offset) ? null : element("p", { class: "quiet" }, `There is no record at ${offset}: it is the mark of a transaction's end, or compaction has removed the record. This is ${found.offset}, the next one.`),
    element("p", {}, "written ", time(found.timestamp_ms), redriven(found.headers)),
    ...(found.life ? lifeOf(found.life, found, again) : []),
    ...payload("Key", found.key), ...decodedValue(found.decoded), ...payload("Value", found.value),
    element("h2", {}, "Headers"),
    found.headers.length ? table([["name", "name"], ["value", "wide"]], found.headers.map((one) => [element("bdi", {}, one.name), one.form === "null" ? "null" : one.text])) : element("p", {}, "None."),
    neighbours(found.offset + 1),
  ].filter((part) => part !== null));
}

// --- Spark ---------------------------------------------------------------------------------------

function showSpark() {
  document.title = "Spark – sharegroup";
  main.replaceChildren(element("h1", {}, "Spark's queries"), element("p", { class: "quiet" }, "asking the broker …"));
  watch("?of=spark", drawSpark);
}

function drawSpark(found) {
  const sum = (query, name) => number(Object.values(query.groups).reduce((all, one) => all + (one[name] ?? 0), 0));
  const rows = found.queries.map((one) => [
    element("span", {}, element("bdi", { title: one.query_id }, one.name ?? one.query_id), one.error ? failure(one.error) : null),
    element("span", {}, ...Object.keys(one.groups).flatMap((group, at) => [at ? ", " : "", link(group, { queue: group })])),
    one.state, number(one.batch), number(one.rows), one.rows_per_s === null ? "–" : number(Math.round(one.rows_per_s)), duration(one.batch_ms),
    sum(one, "accepted"), sum(one, "released"), sum(one, "rejected"), sum(one, "redelivered"), sum(one, "lag"), time(one.at_ms),
  ]);
  redraw(main, ...[
    element("h1", {}, "Spark's queries"),
    found.missing ? element("p", {}, found.missing) : null,
    rows.length ? table([["query", "name"], ["queues", "name"], ["state", ""], ["batch", "number"], ["rows", "number"], ["rows /s", "number"], ["took", "number"],
      ["accepted", "number"], ["released", "number"], ["rejected", "number"], ["redelivered", "number"], ["lag", "number"], ["told", ""]], rows)
      : element("p", {}, "A query is shown here when its session has the listener: spark.streams.addListener(progress_listener({\"kafka.bootstrap.servers\": \"…\"})), from sharegroup.spark."),
    element("h2", {}, "Members of queues that are queries"),
    found.members.length ? table([["queue", "name"], ["member", "name"], ["client", ""], ["host", ""], ["partitions", "number"]],
      found.members.map((one) => [link(one.group, { queue: one.group }), element("bdi", {}, one.member), element("bdi", {}, one.client), one.host, number(one.partitions)]))
      : element("p", {}, "None."),
  ].filter((part) => part !== null));
}

// --- the address ---------------------------------------------------------------------------------

function showLogin(error) {
  document.title = "Log in – sharegroup";
  trouble.replaceChildren();
  live.textContent = "";
  live.className = "";
  if (typeof error.login === "string") { // at an OpenID provider
    const there = error.login + "?" + new URLSearchParams({ then: location.pathname + location.search });
    main.replaceChildren(element("div", { class: "login" }, element("h1", {}, "Log in"),
      element("p", {}, "You see what your user may see at the broker."), element("a", { class: "button", href: there }, "Log in")));
    main.querySelector("a").focus();
    return;
  }
  const user = element("input", { name: "user", autocomplete: "username", required: true });
  const password = element("input", { name: "password", type: "password", autocomplete: "current-password", required: true });
  const said = element("p", { role: "alert" });
  const form = element("form", { class: "login", method: "post" }, element("h1", {}, "Log in"),
    element("p", {}, "With a name and a password of the broker's. You see what this user may see there."),
    element("label", {}, element("span", {}, "User"), user), element("label", {}, element("span", {}, "Password"), password),
    said, element("button", { type: "submit" }, "Log in"));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    said.textContent = "…";
    try {
      await send("login", { user: user.value, password: password.value });
      location.reload(); // what the address asks for
    } catch (error) {
      said.className = "causes";
      said.textContent = visible(error.message);
      password.value = "";
      password.focus();
    }
  });
  main.replaceChildren(form);
  user.focus();
}

async function about() {
  const found = await ask("about");
  acts = found.acts;
  const where = document.getElementById("about");
  where.textContent = visible(`${found.version} · ${found.servers}`);
  if (found.user === null) return;
  token = found.token;
  where.append(" · ", element("bdi", {}, found.user));
  if (found.may_leave) where.append(" ", button("Log out", "logout", async () => {
    await send("logout", {});
    location.reload();
  }));
}

function failed(error) {
  if (error.login) { showLogin(error); return; }
  live.textContent = "";
  main.append(failure(error.message));
}

async function show() {
  await about().catch((error) => { if (error.login) throw error; }); // the broker is away: what follows says so
  if (address.has("queue") && address.get("show") === "dead") await showDead(address.get("queue"), address.get("where") || "");
  else if (address.get("show") === "spark") showSpark();
  else if (address.has("queue")) showQueue(address.get("queue"));
  else if (address.has("topic") && !address.has("offset")) await showTopic(address.get("topic"));
  else if (address.has("topic")) await showRecord(address.get("topic"), address.get("partition") || "0", address.get("offset") || "0", address.get("group"));
  else await showQueues();
}

show().catch(failed);
