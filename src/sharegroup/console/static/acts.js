// What an operator does: a dialog first says what an act would change, then does it.
"use strict";

const PREVIEW_AFTER_MS = 250; // since the last key
const FOR_GOOD = ["purge", "purge-letters", "delete-topic"]; // what cannot be undone

async function act(name, given) {
  return send("acts/" + name, given);
}

// A field of the dialog: {name, label, value, kind, required, hint, when, same}. `kind` is a type of input,
// "moment" for a time, or a list of choices, each a text or [value, text]. `when` says for which
// values of other fields the field is there; `same` what must be typed into it.
function inputOf(field) {
  const { name, value, kind } = field;
  if (Array.isArray(kind)) {
    return element("select", { name }, ...kind.map((one) => {
      const [is, text] = Array.isArray(one) ? one : [one, one];
      return element("option", { value: is, selected: is === value }, text);
    }));
  }
  const type = kind === "moment" ? "datetime-local" : kind || "text";
  return element("input", { name, type, value: value ?? "", autocomplete: "off", spellcheck: "false", min: kind === "number" ? 0 : null,
    step: kind === "moment" ? 1 : null });
}

function valueOf({ kind }, input) {
  if (kind === "number") return input.value === "" ? "" : Number(input.value);
  if (kind === "moment") return input.value ? new Date(input.value).toISOString() : "";
  return input.value;
}

// Links to what an act has made.
function toRecords(records, group) {
  return records.flatMap((one, at) => [at ? ", " : " ", link(`${one.topic}:${one.partition}@${one.offset}`, { ...one, group })]);
}

// Ask before an act. `after` is called when it is done and the dialog is closed.
function askFirst(title, name, given, fields = [], after = null) {
  const inputs = fields.map((field) => {
    const input = inputOf(field);
    return { field, input, label: element("label", {}, element("span", {}, field.label), input,
      field.hint ? element("small", {}, field.hint) : null) };
  });
  const shown = ({ field }) => !field.when || inputs.every((one) => !(one.field.name in field.when) || one.input.value === field.when[one.field.name]);
  const wanted = () => ({ ...given, ...Object.fromEntries(inputs.filter((one) => shown(one) && !one.field.same).map((one) => [one.field.name, valueOf(one.field, one.input)])) });
  const will = element("p", { "aria-live": "polite" }, "…");
  const warning = element("p", { class: "causes", hidden: true });
  const hint = element("p", { class: "quiet", hidden: true });
  const confirm = element("button", { type: "submit", class: FOR_GOOD.includes(name) ? "do danger" : "do" }, title);
  const cancel = element("button", { type: "button" }, "Cancel");
  const form = element("form", { method: "dialog", novalidate: true }, element("h2", {}, title, " ", element("bdi", { class: "quiet" }, given.setting ?? given.group ?? given.topic ?? "")), ...inputs.map((one) => one.label), will, warning, hint,
    element("div", { class: "buttons" }, cancel, confirm));
  const dialog = element("dialog", { "aria-label": title }, form);

  const tell = (text, kind, { warning: warned = null, hint: hinted = null } = {}) => {
    will.textContent = visible(text);
    will.className = kind;
    for (const [where, said] of [[warning, warned], [hint, hinted]]) {
      where.textContent = visible(said ?? "");
      where.hidden = !said;
    }
  };
  let [asked, may, typing, running] = [null, false, null, false]; // what was asked last, and whether it may be done
  // Say what the fields as they are now would change. Of answers that cross, the last question counts.
  const preview = async () => {
    clearTimeout(typing);
    inputs.forEach((one) => { one.label.hidden = !shown(one); });
    const now = wanted();
    const question = asked = JSON.stringify(now);
    const missing = inputs.find((one) => shown(one) && one.field.required && one.input.value === "");
    may = false;
    if (missing) {
      tell(`Fill in: ${missing.field.label}`, "quiet");
    } else {
      try {
        const found = await act(name, now);
        if (question !== asked || running) return;
        may = !found.nothing && inputs.every((one) => !one.field.same || one.input.value === one.field.same);
        tell(found.said, found.nothing ? "quiet" : "", found);
      } catch (error) {
        if (question !== asked || running) return;
        tell(error.message, "causes");
      }
    }
    confirm.disabled = !may;
  };
  const typed = () => { // what is said is outdated until the next preview
    clearTimeout(typing);
    asked = null;
    confirm.disabled = false;
    if (will.className !== "causes") will.className = "outdated";
    typing = setTimeout(preview, PREVIEW_AFTER_MS);
  };
  const progress = async () => { // of a long act
    const { said } = given.group ? await ask("progress?" + new URLSearchParams({ group: given.group })) : {};
    if (said && will.className === "under-way") will.textContent = "under way: " + visible(said);
  };
  inputs.forEach(({ input }) => {
    input.addEventListener("input", typed);
    if (input.tagName === "SELECT") input.addEventListener("change", preview);
  });
  cancel.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => {
    clearTimeout(typing);
    const done = will.className === "done";
    dialog.remove();
    if (done && after) after();
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (running) return;
    const now = wanted();
    if (JSON.stringify(now) !== asked || !may) await preview(); // of what is typed, before it is done
    if (!may || running || JSON.stringify(now) !== asked) return;
    running = true;
    confirm.disabled = true;
    inputs.forEach(({ input }) => { input.disabled = true; });
    tell("under way …", "under-way");
    const asking = setInterval(() => progress().catch(() => {}), 1000);
    try {
      const done = await act(name, { ...now, do: true });
      tell(done.said, "done");
      will.append(...toRecords(done.records, given.group), done.more ? `, and ${number(done.more)} more` : "");
      confirm.hidden = true;
      cancel.textContent = "Close";
    } catch (error) {
      tell(error.message, "causes");
      inputs.forEach(({ input }) => { input.disabled = false; });
    }
    running = false;
    clearInterval(asking);
    cancel.focus();
  });
  confirm.disabled = true; // until it is said for the first time what the act would change
  document.body.append(dialog);
  dialog.showModal();
  preview();
}

function actsOf(queue) {
  if (!acts) return null;
  const given = { group: queue.group };
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const topics = queue.topics.length ? queue.topics : "text";
  return element("div", { class: "buttons" },
    queue.paused ? button("Resume …", "resume", () => askFirst("Resume", "resume", given))
      : button("Pause …", "pause", () => askFirst("Pause", "pause", given)),
    button("Purge …", "purge", () => askFirst("Purge", "purge", given, [{ name: "older_than", label: "Only records older than (such as 2d)" }])),
    button("Reset …", "reset", () => askFirst("Reset", "reset", given, [{ name: "topic", label: "Topic", value: queue.topics[0], kind: topics, required: true },
      { name: "to", label: "The group begins at", value: "earliest", kind: [["earliest", "the first record"], ["latest", "the end"], ["time", "a time"]] },
      { name: "time", label: `Time (${zone})`, kind: "moment", when: { to: "time" }, required: true }])),
    button("Fork …", "fork", () => askFirst("Fork", "fork", given, [{ name: "to", label: "The group that begins here", value: queue.group + "-fork", required: true }])),
    button("Set up dead letters …", "dead-letters", () => setUpLetters(queue)));
}

// Where records go that failed for good: the topic and both settings at once.
function setUpLetters(queue) {
  const now = (name) => (queue.settings.find((one) => one.name === "errors.deadletterqueue." + name) || {}).value;
  const named = now("topic.name");
  const proposed = (named || "").startsWith("dlq.") ? named : "dlq." + queue.group; // what brokers take, unless they are set otherwise
  askFirst("Set up dead letters", "dead-letters", { group: queue.group }, [
    { name: "topic", label: "Topic", value: proposed, required: true },
    { name: "copies", label: "Letters have a copy of the record", value: named ? now("copy.record.enable") || "true" : "true", kind: [["true", "yes"], ["false", "no: only which record failed, and why"]] }]);
}

function decide(group, { topic, partition }, first, last, after = null) {
  askFirst("Decide", "decide", { group, topic, partition }, [
    { name: "how", label: "What becomes of the records", value: "release", kind: [["release", "release: deliver again at once"], ["accept", "accept: finish"],
      ["archive", "archive: give up"], ["extend", "extend: let the member keep them longer"]] },
    { name: "first", label: "From offset", value: first, kind: "number", required: true }, { name: "last", label: "to offset", value: last, kind: "number", required: true },
    { name: "reason", label: "Reason (may be empty)", when: { how: "archive" } },
    { name: "extend", label: "How long (such as 10m)", value: "10m", when: { how: "extend" }, required: true }], after);
}

// --- settings ------------------------------------------------------------------------------------

const OPENED = "sharegroup.defaults-open"; // whether the settings at their defaults are shown

function changeSetting(kind, of, one, after) {
  const flag = ["true", "false"].includes(one.value);
  askFirst("Set", "configure", { kind, of, setting: one.name }, [flag
    ? { name: "value", label: one.name, value: one.value, kind: ["true", "false", ["", "its default"]] }
    : { name: "value", label: one.name + " (empty: its default)", value: one.value }], after);
}

function settings(all, kind, of, after = null) {
  const change = (one) => button("Set …", "change " + one.name, () => changeSetting(kind, of, one, after));
  const drawn = (some) => table([["setting", "name"], ["value", "wide"], ["from", ""], ...(acts ? [["act", ""]] : []), ["meaning", "wide"]],
    some.map((one) => [one.name, one.value || "–", one.source, ...(acts ? [change(one)] : []), one.meaning ?? ""]));
  const set = all.filter((one) => one.source !== "default");
  const rest = all.filter((one) => one.source === "default");
  const more = element("details", { open: sessionStorage.getItem(OPENED) === "yes" }, element("summary", { "data-key": "defaults" }, `${number(rest.length)} settings at their defaults`), drawn(rest));
  more.addEventListener("toggle", () => sessionStorage.setItem(OPENED, more.open ? "yes" : "no"));
  return element("div", {}, set.length ? drawn(set) : element("p", {}, `Nothing is set for this ${kind}.`), more);
}
