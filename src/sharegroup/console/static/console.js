// The page: what the address asks for, drawn from the JSON under /api/v1. All text from the broker
// is set as text, never as markup.
"use strict";

const main = document.getElementById("main");
const live = document.getElementById("live");
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
  return element("time", { datetime: date.toISOString(), title: date.toISOString() },
    date.toLocaleString());
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
  const key = document.activeElement && document.activeElement.dataset.key;
  where.replaceChildren(...parts.filter((part) => part !== null));
  const again = key && where.querySelector(`[data-key="${CSS.escape(key)}"]`);
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

function table(columns, rows) {
  const head = element("tr", {}, ...columns.map(([title, kind]) =>
    element("th", { scope: "col", class: kind }, title)));
  const body = rows.map((cells) => element("tr", {}, ...cells.map((cell, at) =>
    element("td", { class: columns[at][1] }, cell))));
  return element("div", { class: "scroll" },
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
  return found(await fetch("/api/v1/" + path));
}

async function send(path, given) {
  return found(await fetch("/api/v1/" + path, { method: "POST", body: JSON.stringify(given),
    headers: { "content-type": "application/json", "x-sharegroup-act": token } }));
}

// Draw with each view that the broker's events bring. The browser connects again by itself.
function watch(path, draw) {
  const events = new EventSource("/api/v1/events" + path);
  events.onmessage = (event) => {
    live.className = "";
    live.textContent = "live";
    const found = JSON.parse(event.data);
    if (found.error && !("group" in found)) main.replaceChildren(failure(found.error));
    else if (getSelection().isCollapsed) draw(found); // text that is being selected stays
  };
  events.onerror = () => {
    live.className = "lost";
    live.textContent = "connection lost, trying again …";
    if (events.readyState !== EventSource.CLOSED) return;
    const again = () => setTimeout(() => watch(path, draw), 5000); // refused: there are too many viewers, or …
    ask("about").then(again, (error) => (error.login ? showLogin(error) : again())); // … the session has ended
  };
}

// --- acts ----------------------------------------------------------------------------------------

async function act(name, given) {
  return (await send("acts/" + name, given)).said;
}

// Ask before an act: a dialog with fields, and what the act would change. `fields` are [name, label,
// value, kind]; a list as kind is a choice. `after` is called when it is done and the dialog is closed.
function askFirst(title, name, given, fields = [], after = null) {
  const inputs = fields.map(([field, label, value, kind]) => {
    const input = Array.isArray(kind)
      ? element("select", { name: field }, ...kind.map((one) => element("option", { value: one, selected: one === value }, one)))
      : element("input", { name: field, type: kind || "text", value: value ?? "" });
    return [field, kind, input, element("label", {}, element("span", {}, label), input)];
  });
  const wanted = () => Object.fromEntries([...Object.entries(given), ...inputs.map(([field, kind, input]) =>
    [field, kind === "number" ? Number(input.value) : input.value])]);
  const will = element("p", { "aria-live": "polite" }, "…");
  const confirm = element("button", { type: "submit", class: "do" }, title);
  const cancel = element("button", { type: "button" }, "Cancel");
  const form = element("form", { method: "dialog" }, element("h2", {}, title), ...inputs.map((one) => one[3]), will,
    element("div", { class: "buttons" }, cancel, confirm));
  const dialog = element("dialog", { "aria-label": title }, form);
  const preview = async () => {
    confirm.disabled = true;
    try {
      const said = visible(await act(name, wanted()));
      will.textContent = said;
      will.className = "";
      confirm.disabled = false;
    } catch (error) {
      will.textContent = visible(error.message);
      will.className = "causes";
    }
  };
  const progress = async () => { // of a long act
    const { said } = given.group ? await ask("progress?" + new URLSearchParams({ group: given.group })) : {};
    if (said && will.className === "under-way") will.textContent = "under way: " + visible(said);
  };
  inputs.forEach(([, , input]) => input.addEventListener("change", preview));
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    const done = will.className === "done";
    dialog.remove();
    if (done && after) after();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    will.textContent = "under way …";
    will.className = "under-way";
    const asking = setInterval(() => progress().catch(() => {}), 1000);
    try {
      const said = visible(await act(name, { ...wanted(), do: true }));
      will.textContent = said;
      will.className = "done";
    } catch (error) {
      will.textContent = visible(error.message);
      will.className = "causes";
    }
    clearInterval(asking);
    cancel.textContent = "Close";
    cancel.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  preview();
}

function actsOf(queue) {
  if (!acts) return null;
  const given = { group: queue.group };
  return element("div", { class: "buttons" },
    queue.paused ? button("Resume …", "resume", () => askFirst("Resume", "resume", given))
      : button("Pause …", "pause", () => askFirst("Pause", "pause", given)),
    button("Purge …", "purge", () => askFirst("Purge", "purge", given, [["older_than", "Only records older than (such as 2d)", ""]])),
    button("Reset …", "reset", () => askFirst("Reset", "reset", given, [["topic", "Topic", queue.topics[0], queue.topics.length ? queue.topics : "text"],
      ["to", "The group begins at", "earliest", ["earliest", "latest", "time"]], ["time", "With time: 2026-11-21T08:30Z", ""]])),
    button("Fork …", "fork", () => askFirst("Fork", "fork", given, [["to", "The group that begins here", queue.group + "-fork"]])));
}

function decide(queue, partition, first, last) {
  askFirst("Decide", "decide", { group: queue.group, topic: partition.topic, partition: partition.partition }, [
    ["how", "What becomes of the records", "release", ["release", "accept", "archive", "extend"]],
    ["first", "From offset", first, "number"], ["last", "to offset", last, "number"],
    ["reason", "Reason, for archive", ""], ["extend", "How long, for extend", "10m"]]);
}

// --- all queues ----------------------------------------------------------------------------------

let wanted = address.get("search") || "";
let listed = null;
let most = 100; // queues that are drawn: a table of thousands would make each scroll stutter

function worst(one, other) {
  const key = (queue) => [queue.error ? 1 : 0, queue.lag ? -(queue.oldest_ms ?? Infinity) : -Infinity,
    queue.lag || 0];
  const [a, b] = [key(one), key(other)];
  for (let at = 0; at < a.length; at++) if (a[at] !== b[at]) return b[at] - a[at];
  return one.group < other.group ? -1 : 1;
}

function drawQueues() {
  const queues = listed.queues.filter((queue) => queue.group.toLowerCase().includes(wanted.toLowerCase()));
  queues.sort(worst);
  const rows = queues.slice(0, most).map((queue) => queue.error
    ? [link(queue.group, { queue: queue.group }), visible(queue.error), "", "", "", "", "", "", ""]
    : [
      link(queue.group, { queue: queue.group }), number(queue.ready), number(queue.in_flight),
      number(queue.delayed), number(queue.dead), number(queue.members),
      queue.lag && queue.oldest_ms !== null ? duration(listed.at_ms - queue.oldest_ms) : "–",
      element("span", { class: "rate" }, sparkline(queue.written, "in"), rateText(queue.written)),
      element("span", { class: "rate" }, sparkline(queue.finished, "out"), rateText(queue.finished)),
    ]);
  redraw(document.getElementById("queues"),
    listed.more ? element("p", {}, `asking about ${number(listed.more)} more queues …`) : "",
    queues.length || !listed.queues.length ? "" : element("p", {}, "No queue has that in its name."),
    listed.queues.length ? table([["queue", "name"], ["ready", "number"], ["in flight", "number"],
      ["delayed", "number"], ["dead, unwritten", "number"], ["members", "number"], ["oldest", "number"],
      ["in /s", ""], ["out /s", ""]], rows)
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
    askFirst("Create", "create-topic", {}, [["topic", "Name", ""], ["partitions", "Partitions", 1, "number"]], listTopics))) : "",
  element("div", { id: "topics" }));
  watch("", (found) => { listed = found; drawQueues(); });
  await listTopics();
}

async function listTopics() {
  const { topics } = await ask("topics");
  document.getElementById("topics").replaceChildren(table([["topic", "name"], ["partitions", "number"]],
    topics.map((one) => [link(one.topic, { topic: one.topic }), number(one.partitions)])));
}

async function showTopic(topic) {
  document.title = visible(topic) + " – sharegroup";
  live.textContent = "";
  const found = await ask("topic?" + new URLSearchParams({ topic }));
  const again = () => showTopic(topic).catch(failed);
  main.replaceChildren(...[
    element("h1", {}, element("bdi", {}, topic)),
    acts ? element("div", { class: "buttons" }, button("Delete …", "delete-topic", () =>
      askFirst("Delete", "delete-topic", { topic }, [], () => { location.href = "/"; }))) : null,
    table([["partition", "number"], ["first", "number"], ["end", "number"], ["records", "number"], ["leader", "number"]],
      found.partitions.map((one) => [number(one.partition),
        one.end > one.start ? link(number(one.start), { topic, partition: one.partition, offset: one.start }) : number(one.start),
        one.end > one.start ? link(number(one.end), { topic, partition: one.partition, offset: one.end - 1 }) : number(one.end),
        number(one.end - one.start), number(one.leader)])),
    element("h2", {}, "Settings"),
    found.settings_missing ? element("p", { class: "quiet" }, found.settings_missing) : settings(found.settings, "topic", topic, again),
  ].filter((part) => part !== null));
}

// --- one queue -----------------------------------------------------------------------------------

const STATES = ["available", "acquired", "delayed", "acknowledged", "archived", "archiving", "blocked"];
const MEANINGS = { available: "waits for another delivery", acquired: "with a member", delayed: "rests",
  acknowledged: "accepted", archived: "given up", archiving: "dead letter not written yet", blocked: "waits for an operator" };

function strip(queue, partition) {
  const all = partition.ranges.reduce((sum, one) => sum + one.last - one.first + 1, 0);
  const parts = partition.ranges.map((one) => {
    const size = one.last - one.first + 1;
    const said = [`${one.first} to ${one.last}: ${one.state}`, `delivered ${one.deliveries} times`];
    if (one.member) said.push(`with ${one.member}`);
    if (one.lock_ms !== null) said.push(`${duration(one.lock_ms)} left`);
    if (one.reason) said.push(one.reason);
    const drawn = element("i", { class: one.state, width: (100 * size / all) + "%", title: visible(said.join(", ")) });
    if (acts) drawn.addEventListener("click", () => decide(queue, partition, one.first, one.last));
    return drawn;
  });
  return element("div", { class: "strip", role: "img", "aria-label": parts.length
    ? partition.ranges.slice(0, 20).map((one) => `${one.first} to ${one.last} ${one.state}`).join(", ") : "nothing in flight" }, ...parts);
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
    scales: { y: { range: (self, low, high) => [0, Math.max(1, high)] } }, axes: [axis, { ...axis, size: 60 }],
    series: [{}, ...series.map(([label, name]) => ({ label, stroke: color(name), width: 2, points: { show: false } }))] }, values, charts);
}

function drawCharts(history) {
  const at = history.at_ms.map((ms) => ms / 1000);
  const [rates, lag] = [[at, history.written, history.finished, history.redelivered], [at, history.lag]];
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

function drawQueue(queue) {
  const oldest = queue.lag && queue.oldest_ms !== null ? duration(queue.at_ms - queue.oldest_ms) : "–";
  const partitions = queue.partitions.map((one) => [
    link(`${one.topic}:${one.partition}`, { topic: one.topic, partition: one.partition, offset: one.start ?? 0, group: queue.group }),
    number(one.start), number(one.end), number(one.lag), number(one.in_flight),
    one.error ? visible(one.error) : element("div", {}, strip(queue, one), one.more_ranges ? `${number(one.more_ranges)} ranges more` : ""),
    ...(acts ? [button("Decide …", `decide ${one.topic} ${one.partition}`, () => decide(queue, one, one.start ?? 0, one.start ?? 0))] : []),
  ]);
  redraw(main, ...[
    element("h1", {}, element("bdi", {}, queue.group)), tabs(queue.group, "now"),
    actsOf(queue),
    queue.causes.length ? element("ul", { class: "causes" }, ...queue.causes.map((one) => element("li", {}, one))) : null,
    numbers([["state", queue.paused ? queue.state + ", paused" : queue.state], ["ready", number(queue.ready)],
      ["in flight", number(queue.in_flight)], ["delayed", number(queue.delayed)], ["dead, unwritten", number(queue.dead)],
      ["oldest", oldest], ["in /s", rateText(queue.written)], ["out /s", rateText(queue.finished)]]),
    queue.history.at_ms.length > 1 ? drawCharts(queue.history) : null,
    element("h2", {}, "Partitions"),
    queue.states_missing ? element("p", { class: "quiet" }, queue.states_missing) : null,
    element("ul", { class: "legend" }, ...STATES.map((state) => element("li", {}, element("i", { class: state }), `${state}: ${MEANINGS[state]}`))),
    table([["partition", "name"], ["start", "number"], ["end", "number"], ["lag", "number"], ["in flight", "number"], ["window", ""], ...(acts ? [["act", ""]] : [])], partitions),
    element("h2", {}, "Members"),
    queue.members.length ? table([["member", "name"], ["client", ""], ["host", ""], ["partitions", "wide"], ["holds", "number"], ["shortest lock", "number"]],
      queue.members.map((one) => [element("bdi", {}, one.member), element("bdi", {}, one.client), one.host, one.partitions.join(", "), number(one.holds), duration(one.shortest_lock_ms)]))
      : element("p", {}, "No member."),
    element("h2", {}, "Settings"),
    queue.settings_missing ? element("p", { class: "quiet" }, queue.settings_missing) : settings(queue.settings, "group", queue.group),
  ].filter((part) => part !== null));
}

let defaultsOpen = false;

function settings(all, kind, of, after = null) {
  const change = (one) => button("Change …", "change " + one.name, () => askFirst("Set", "configure", { kind, of, setting: one.name },
    [["value", one.name + " (empty: its default)", one.source === "default" ? "" : one.value ?? ""]], after));
  const drawn = (some) => table([["setting", "name"], ["value", "wide"], ["from", ""], ["meaning", "wide"], ...(acts ? [["act", ""]] : [])],
    some.map((one) => [one.name, one.value || "–", one.source, one.meaning ?? "", ...(acts ? [change(one)] : [])]));
  const set = all.filter((one) => one.source !== "default");
  const rest = all.filter((one) => one.source === "default");
  const more = element("details", { open: defaultsOpen }, element("summary", { "data-key": "defaults" }, `${number(rest.length)} settings at their defaults`), drawn(rest));
  more.addEventListener("toggle", () => { defaultsOpen = more.open; });
  return element("div", {}, set.length ? drawn(set) : element("p", {}, `Nothing is set for this ${kind}.`), more);
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
  drawn.setAttribute("aria-label", `${times.length} letters from ${new Date(first).toISOString()} to ${new Date(last).toISOString()}`);
  const most = Math.max(...counts);
  counts.forEach((count, at) => {
    if (!count) return;
    const bar = document.createElementNS(space, "rect");
    const height = Math.max(2, 58 * count / most);
    for (const [name, value] of Object.entries({ x: at * 10, y: 60 - height, width: 9, height })) bar.setAttribute(name, value);
    const title = document.createElementNS(space, "title");
    title.textContent = `${count} from ${new Date(first + at * step).toISOString()}`;
    bar.append(title);
    drawn.append(bar);
  });
  return element("div", {}, drawn, element("p", { class: "quiet ends" }, time(first), element("span", {}, " to "), time(last)));
}

async function showDead(group, where) {
  document.title = visible(group) + ": dead letters – sharegroup";
  const chosen = where ? { where } : {};
  const filter = element("input", { type: "search", value: where, "aria-label": "Only letters for which this is true",
    placeholder: 'All letters; or such as: cause == "rejected" and age < 2d' });
  const form = element("form", { class: "filter" }, filter, element("button", { type: "submit" }, "Filter"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    location.href = "/?" + new URLSearchParams({ queue: group, show: "dead", ...(filter.value ? { where: filter.value } : {}) });
  });
  main.replaceChildren(element("h1", {}, element("bdi", {}, group)), tabs(group, "dead"), form, element("p", { class: "quiet" }, "reading the letters …"));
  live.textContent = "";
  let found;
  try {
    found = await ask("dead?" + new URLSearchParams({ group, ...chosen }));
  } finally {
    main.lastChild.remove();
  }
  if (found.missing) { main.append(element("p", {}, found.missing)); return; }
  const again = () => showDead(group, where).catch(failed);
  const wherever = ["where", "Only letters for which this is true", where];
  main.append(element("div", { class: "buttons" },
    acts ? button("Redrive …", "redrive", () => askFirst("Redrive", "redrive", { group }, [wherever, ["to", "To another topic (empty: where they are from)", ""]], again)) : "",
    acts ? button("Purge letters …", "purge-letters", () => askFirst("Purge letters", "purge-letters", { group }, [wherever], again)) : "",
    element("a", { href: "/api/v1/letters?" + new URLSearchParams({ group, ...chosen }), download: "" }, "Export as JSON lines")));
  main.append(element("h2", {}, "By cause"));
  main.append(found.causes.length ? table([["cause", "name"], ["message", "wide"], ["letters", "number"]],
    found.causes.map((one) => [one.cause ?? "–", one.message ?? "–", number(one.letters)])) : element("p", {}, "No dead letters."));
  if (found.more) main.append(element("p", { class: "quiet" }, "These are the oldest letters; there are more."));
  const byTime = bars(found.letters);
  if (byTime) main.append(element("h2", {}, "By time"), byTime);
  main.append(element("h2", {}, "Letters"), table([["letter", ""], ["record", "name"], ["failed", ""], ["deliveries", "number"], ["cause", ""], ["message", "wide"], ["key", "wide"], ["value", "wide"]],
    found.letters.map((one) => [one.letter, link(`${one.topic}:${one.partition}@${one.offset}`, { topic: one.topic, partition: one.partition, offset: one.offset, group }),
      time(one.failed_ms), number(one.deliveries), one.cause ?? "–", one.message ?? "–", one.key.text.slice(0, 200), one.value.text.slice(0, 200)])));
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

function lifeOf(life) {
  const told = [["state", life.state], ["deliveries", life.deliveries === null ? "–" : `${number(life.deliveries)} of ${life.limit ?? "–"}`]];
  if (life.member) told.push(["with", life.member]);
  if (life.lock_ms !== null) told.push(["time left", duration(life.lock_ms)]);
  if (life.reason) told.push(["reason", life.reason]);
  return [element("h2", {}, "In ", link(life.group, { queue: life.group })), numbers(told), element("p", {}, life.next)];
}

async function showRecord(topic, partition, offset, group) {
  document.title = visible(`${topic}:${partition}@${offset}`) + " – sharegroup";
  main.replaceChildren(element("h1", {}, element("bdi", {}, topic), `:${partition}@${offset}`));
  live.textContent = "";
  const query = { topic, partition, offset, ...(group ? { group } : {}) };
  const found = await ask("record?" + new URLSearchParams(query));
  main.append(...[
    found.offset === Number(offset) ? null : element("p", { class: "quiet" }, `There is no record at ${offset}; this is ${found.offset}, the next one.`),
    element("p", {}, "written ", time(found.timestamp_ms)),
    ...(found.life ? lifeOf(found.life) : []),
    ...payload("Key", found.key), ...decodedValue(found.decoded), ...payload("Value", found.value),
    element("h2", {}, "Headers"),
    found.headers.length ? table([["name", "name"], ["value", "wide"]], found.headers.map((one) => [element("bdi", {}, one.name), one.form === "null" ? "null" : one.text])) : element("p", {}, "None."),
    element("nav", { class: "tabs", "aria-label": "Neighbours" },
      Number(offset) > 0 ? link("previous", { ...query, offset: Number(offset) - 1 }) : null, link("next", { ...query, offset: found.offset + 1 })),
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
