// Side panel with the details of a task or actor.

let selected;  // {task, actor}: task name and actor key
let opener;

function openDetails(what) {
  opener = document.activeElement;
  selected = what;
  const panel = byId("details");
  panel.hidden = false;
  panel.replaceChildren();
  panel.made = undefined;
  panel.scrollTop = 0;
  showDetails();
  panel.focus();
}

function closeDetails() {
  selected = undefined;
  byId("details").hidden = true;
  opener?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && selected) closeDetails();
});

function showDetails() {
  if (!selected) return;
  const task = cluster.tasks.get(selected.task);
  const actor = task && selected.actor ? actorsOf(task).find((each) => each.key === selected.actor) : undefined;
  const gone = selected.actor ? "An actor that has ended" : shortName(selected.task);
  const title = actor ? actor.kind + " " + ownName(task, actor) : gone;
  const parts = [{id: "title", make: makeDetailsTitle, update: (node) => setText(node.querySelector("h2"), title)}];
  if (actor) parts.push(...actorParts(task, actor));
  else if (task && !selected.actor) parts.push(...taskParts(task));
  setChildren(byId("details"), parts, (part) => part.id, (part) => part.make(part),
    (node, part) => part.update(node, part));
}

function makeDetailsTitle() {
  const close = element("button", {type: "button", class: "close", onclick: closeDetails}, "Close");
  return element("div", {class: "title"}, element("h2", {id: "details-title"}), close);
}

const heading = (id, title) => ({id: id + " heading", make: () => element("h3", {}, title), update: () => {}});

const withHeading = (id, title, make, rows) => (rows.length ? [heading(id, title), make(id, rows)] : []);

function paragraph(id, text) {
  return {id, make: () => element("p", {}), update: (node) => setText(node, text)};
}

// `rows`: [what, value].
function pairs(id, rows) {
  const told = rows.filter(([, value]) => value !== undefined && value !== "");
  const items = told.flatMap(([what, value], nth) => [
    {key: nth + " dt", tag: "dt", text: what},
    {key: nth + " dd", tag: "dd", text: value},
  ]);
  const update = (node) => setChildren(node, items, (each) => each.key, (each) => element(each.tag),
    (child, each) => setText(child, each.text));
  return {id, make: () => element("dl", {class: "pairs"}), update};
}

// `rows`: [name, amount, note].
function bars(id, rows) {
  const most = Math.max(1, ...rows.map(([, amount]) => amount));
  const cells = rows.flatMap(([name, amount, note], nth) => [
    {key: nth + " of", part: "of", text: name, share: amount / most},
    {key: nth + " count", part: "count", text: number(amount)},
    {key: nth + " rate", part: "rate", text: note},
  ]);
  const show = (child, cell) => {
    setText(child, cell.text);
    if (cell.part === "of") child.style.setProperty("--busy-share", Math.round(100 * cell.share) + "%");
  };
  const make = (cell) => element("span", {class: cell.part});
  const update = (node) => setChildren(node, cells, (cell) => cell.key, make, show);
  return {id, make: () => element("div", {class: "bars"}), update};
}

function actorParts(task, actor) {
  const grows = (read, show = number) => perSecond(actorRate(task, actor, read), show);
  const share = actorRate(task, actor, (each) => each.busy_ns / 1e9);
  const before = actorBefore(task, actor);
  const types = Object.entries(actor.messages ?? {}).sort((a, b) => b[1] - a[1]);
  const peers = Object.entries(actor.peers ?? {}).sort((a, b) => b[1] - a[1]);
  const perType = (name) => (before ? perSecond(actorRate(task, actor, (each) => each.messages?.[name] ?? 0)) : "–");
  return [
    paragraph("state", (task.answered ? "" : "Its task does not answer; this was: ") + actorDoing(actor)),
    heading("counters", "Counters"),
    pairs("counters", [
      ["task", shortName(task.name)],
      ["busy", percent(share) + ", " + duration(actor.busy_ns) + " in all"],
      ["mailbox", number(actor.mailbox) + ", at most " + number(actor.mailbox_peak)],
      ["handled", number(actor.handled) + ", " + grows((each) => each.handled)],
      ["done by their senders", number(actor.passed) + ", " + grows((each) => each.passed)],
      ["sent", number(actor.sent) + ", " + grows((each) => each.sent)],
      ["restarts", number(actor.restarts)],
    ]),
    ...withHeading("messages", "Messages handled, by type", bars,
      types.map(([name, count]) => [name, count, perType(name)])),
    ...withHeading("peers", "Where its last messages came from", bars,
      peers.map(([name, count]) => [shortName(name) || "its own task", count, ""])),
    ...flightParts(task),
  ];
}

function taskParts(task) {
  const now = task.now;
  if (!now) return [paragraph("state", taskDoing(task))];
  // Skips waits whose text is known only to another task.
  const waits = (now.waiting?.waits ?? [])
    .map((wait) => [thingText(now, wait.waiter), wait.text || thingText(now, wait.awaited), wait.for_ns])
    .filter(([waiter, awaited]) => waiter && awaited)
    .map(([waiter, awaited, ns]) => [shortName(waiter + " waits for " + awaited), ns ? duration(ns) : "–"]);
  return [
    paragraph("state", taskDoing(task)),
    heading("process", "Process"),
    pairs("process", [
      ["number", String(now.pid)],
      ["up for", duration(now.uptime_ns)],
      ["version", now.version],
      ["incarnation", now.incarnation],
      ["introspector", task.address],
      ["answered in", task.answered ? duration(task.took) : "–"],
      ["failure", now.failure],
    ]),
    ...withHeading("training", "Training", pairs, now.training ? [
      ["mode", now.training.mode],
      ["epoch", number(now.training.epoch)],
      ["steps computed", number(now.training.steps)],
      ["images computed", number(now.training.examples)],
      ["loss", number(now.training.loss)],
    ] : []),
    ...withHeading("waits", "Waits", pairs, waits.slice(0, 30)),
    ...flightParts(task),
  ];
}

const thingText = (snapshot, id) => (snapshot.waiting?.things ?? []).find((thing) => thing.id === id)?.text;

function flightParts(task) {
  return [{id: "flight", make: () => makeFlight(task.name), update: () => {}}];
}

function makeFlight(name) {
  const text = element("pre", {hidden: true});
  const show = async () => {
    try {
      text.textContent = await ask("flight?task=" + encodeURIComponent(name));
    } catch (error) {
      text.textContent = "No flight record: " + error.message;
    }
    text.hidden = false;
  };
  const button = element("button", {type: "button", class: "action", onclick: show}, "Show");
  return element("div", {}, element("h3", {}, "Flight record of the task: its last messages"), button, text);
}
