// Tasks as boxes with their actors, and the traffic between them.

const jobOf = (task) => shortName(task.name).split("/")[0];
const kIdleTraffic = 2000;  // bytes per second: heartbeats

function showPicture() {
  const groups = new Map();
  for (const task of cluster.tasks.values()) groups.set(jobOf(task), [...(groups.get(jobOf(task)) ?? []), task]);
  const boxes = byId("groups");
  boxes.classList.toggle("two", groups.size === 2);
  setChildren(boxes, [...groups], ([name]) => name, ([name]) => element("div", {class: "group", "data-job": name}),
    (group, [, tasks]) => setChildren(group, tasks, (task) => task.name, makeTask, updateTask));
  showEdges();
}

function makeTask(task) {
  return element("article", {class: "task", "data-task": task.name},
    element("button", {type: "button", onclick: () => openDetails({task: task.name})},
      element("span", {class: "name"}, element("span"), element("small")),
      element("span", {class: "doing"})),
    element("div", {class: "actors"}),
    element("button", {
      type: "button",
      class: "more",
      onclick: (event) => showQuiet(event.currentTarget.parentNode, true),
    }));
}

// Hides idle actors until the user asks for them.
function showQuiet(box, toggled) {
  if (toggled) box.classList.toggle("all");
  const all = box.classList.contains("all");
  const quiet = box.querySelectorAll(".actor.quiet").length;
  const more = box.querySelector(".more");
  more.hidden = !quiet;
  more.setAttribute("aria-expanded", String(all));
  setText(more, (all ? "hide " : "and ") + counted(quiet, "idle actor", "idle actors"));
  if (toggled) placeEdges();
}

function updateTask(box, task) {
  setText(box.querySelector(".name span"), shortName(task.name));
  setText(box.querySelector(".name small"), task.now ? "pid " + task.now.pid : "");
  box.classList.toggle("silent", !task.answered);
  box.classList.toggle("failing", Boolean(task.now?.failure));
  box.dataset.answered = task.answered;
  const doing = taskDoing(task);
  setText(box.querySelector(".doing"), doing);
  box.querySelector(".doing").title = doing;
  setChildren(box.querySelector(".actors"), actorsOf(task), (actor) => actor.key, (actor) => makeActor(task, actor),
    (row, actor) => updateActor(row, task, actor));
  showQuiet(box);
}

function taskDoing(task) {
  if (!task.answered) {
    const since = task.heard === undefined ? "" : " for " + duration(task.silentFor);
    return "does not answer" + since + (task.error ? ": " + shortName(task.error) : "");
  }
  if (task.now.failure) return shortName(task.now.failure);
  const training = task.now.training;
  if (training) return training.doing || "epoch " + training.epoch;
  const here = task.now.shards ?? [];
  return here.map((shard) => "shard " + shard.shard + " at version " + number(shard.version)).join(", ");
}

function makeActor(task, actor) {
  const onclick = () => openDetails({task: task.name, actor: actor.key});
  return element("button", {type: "button", class: "actor", "data-kind": actor.kind, onclick},
    element("b", {class: "glyph", "aria-hidden": "true"}),
    element("span", {class: "kind"}, actor.kind),
    element("span", {class: "of"}),
    element("span", {class: "mail"}),
    element("span", {class: "rate"}),
    element("span", {class: "share"}));
}

function updateActor(row, task, actor) {
  const share = actorRate(task, actor, (each) => each.busy_ns / 1e9);
  row.dataset.state = actor.state;
  row.classList.toggle("quiet", isQuiet(task, actor));
  row.style.setProperty("--busy-share", share === undefined ? "0%" : Math.round(100 * Math.min(1, share)) + "%");
  setText(row.querySelector(".of"), ownName(task, actor));
  const messages = actorRate(task, actor, (each) => each.handled + each.passed);
  setText(row.querySelector(".rate"), messages >= 0.5 ? scaled(messages, 1000, ["", "k", "M"]) + "/s" : "");
  const mail = row.querySelector(".mail");
  setText(mail, actor.mailbox > 0 ? "✉\ufe0e " + number(actor.mailbox) : "");
  mail.classList.toggle("some", actor.mailbox > 0);
  setText(row.querySelector(".share"), percent(share));
  row.querySelector(".share").classList.toggle("some", share > 0.05);
  const load = number(actor.mailbox) + " in its mailbox, " + percent(share) + " busy";
  const label = actor.kind + " " + ownName(task, actor) + ": " + actorDoing(actor) + "; " + load;
  row.title = label;
  row.setAttribute("aria-label", label);
}

function actorDoing(actor) {
  const said = [actor.state];
  if (actor.current) said.push("handles " + actor.current + " for " + duration(actor.current_ns));
  if (actor.waits_for) {
    said.push("waits for " + shortName(actor.waits_for) + (actor.waits_ns ? " for " + duration(actor.waits_ns) : ""));
  }
  return said.join(", ");
}

// Connections between tasks, as reported by either end.
function edges() {
  const tasks = [...cluster.tasks.values()];
  const found = [];
  tasks.forEach((from, index) => tasks.slice(index + 1).forEach((to) => {
    const last = [[from, linkTo(from.now, to.name)], [to, linkTo(to.now, from.name)]].filter(([, end]) => end);
    if (!last.length) return;
    const ends = last.filter(([task]) => task.answered).map(([, end]) => end);
    const there = traffic(from, to) ?? 0;
    const back = traffic(to, from) ?? 0;
    const trouble = troubleOf(ends);
    // Hide connections within a job that carry no tensors: they would only cross the boxes.
    const idle = jobOf(from) === jobOf(to) && there + back < kIdleTraffic;
    if (idle && (!trouble || !from.answered || !to.answered)) return;
    found.push({from, to, there, back, trouble, key: from.name + " " + to.name});
  }));
  return found;
}

function troubleOf(ends) {
  if (!ends.length || ends.some((end) => !end.up)) return "down";
  return ends.some((end) => end.suspect) ? "suspect" : ends.some((end) => end.stalled) ? "stalled" : "";
}

const dotsClass = (rate) => (rate < kIdleTraffic ? "still" : rate < 1e6 ? "slow" : rate < 3e7 ? "" : "fast");

function showEdges() {
  const drawing = byId("edges");
  const found = edges();
  // Leave room for edges that run below the last boxes.
  const last = jobOf([...cluster.tasks.values()].at(-1) ?? {name: ""});
  byId("groups").classList.toggle("below", found.some((edge) => jobOf(edge.from) === last && jobOf(edge.to) === last));
  const ways = found.flatMap((edge) => [
    {edge, key: edge.key + " line", kind: "line"},
    {edge, key: edge.key + " there", kind: "dots", bytes: edge.there},
    {edge, key: edge.key + " back", kind: "dots", bytes: edge.back, reverse: true},
    ...(edge.trouble ? [{edge, key: edge.key + " text", kind: "text"}] : []),
  ]);
  const make = (way) => drawn(way.kind === "text" ? "text" : "path");
  setChildren(drawing, ways, (way) => way.key, make, (path, way) => {
    path.way = way;
    if (way.kind === "text") {
      path.setAttribute("class", "edge-text " + way.edge.trouble);
      setText(path, way.edge.trouble);
    } else if (way.kind === "line") {
      const total = way.edge.there + way.edge.back;
      const trouble = way.edge.trouble === "down" ? " down" : way.edge.trouble ? " trouble" : "";
      path.setAttribute("class", "edge" + trouble);
      const busyWidth = (2 + 2.2 * Math.log10(1 + total / 1e5)).toFixed(1);
      path.setAttribute("stroke-width", total < kIdleTraffic ? 1.5 : busyWidth);
    } else {
      path.setAttribute("class", "dots " + dotsClass(way.edge.trouble === "down" ? 0 : way.bytes));
    }
  });
  placeEdges();
}

// Call when boxes have moved or grown.
function placeEdges() {
  const frame = byId("picture").getBoundingClientRect();
  const places = new Map();
  for (const box of document.querySelectorAll(".task")) {
    const at = box.getBoundingClientRect();
    places.set(box.dataset.task, {
      left: at.left - frame.left,
      right: at.right - frame.left,
      top: at.top - frame.top,
      bottom: at.bottom - frame.top,
    });
  }
  const paths = [...byId("edges").children].filter((path) => path.way);
  const lines = paths.filter((path) => path.way.kind === "line");
  const columns = getComputedStyle(byId("groups")).display === "grid";  // on a phone: a job beside the other
  const ends = lines.map(({way: {edge: {from, to}}}) =>
    sides(places.get(from.name), places.get(to.name), columns && jobOf(from) !== jobOf(to)));
  const anchors = spread(lines.map((path) => path.way.edge), ends, places);
  for (const path of paths) {
    const index = lines.findIndex((line) => line.way.edge === path.way.edge);
    const {from, to, bend} = anchors[index];
    if (path.way.kind === "text") {
      path.setAttribute("x", (from.x + to.x) / 2 + bend.x * 0.75);
      path.setAttribute("y", (from.y + to.y) / 2 + bend.y * 0.75 + 4);
    } else if (path.way.kind === "line") {
      path.setAttribute("d", curve(from, to, bend, 0));
    } else {
      path.setAttribute("d", path.way.reverse ? curve(to, from, bend, 4) : curve(from, to, bend, 4));
    }
  }
}

// The sides of two boxes that face each other; the bottom sides for boxes side by side.
function sides(a, b, columns) {
  if (columns) return a.left < b.left ? ["right", "left"] : ["left", "right"];
  if (a.bottom <= b.top) return ["bottom", "top"];
  return b.bottom <= a.top ? ["top", "bottom"] : ["bottom", "bottom"];
}

// End points of the connections: spread along each side of a box, ordered by destination.
function spread(found, ends, places) {
  const leaving = new Map();
  const leave = (here, there, side, index) => {
    const key = here.name + " " + side;
    leaving.set(key, [...(leaving.get(key) ?? []), {there: places.get(there.name), index}]);
  };
  found.forEach((edge, index) => {
    leave(edge.from, edge.to, ends[index][0], index);
    leave(edge.to, edge.from, ends[index][1], index);
  });
  const anchor = (here, side, index) => {
    const at = places.get(here.name);
    const upright = side === "left" || side === "right";
    const others = leaving.get(here.name + " " + side);
    others.sort((a, b) => (upright ? a.there.top - b.there.top : a.there.left - b.there.left));
    const share = (others.findIndex((each) => each.index === index) + 1) / (others.length + 1);
    if (upright) return {x: at[side], y: at.top + (at.bottom - at.top) * share, dx: side === "left" ? -1 : 1, dy: 0};
    return {x: at.left + (at.right - at.left) * (0.15 + 0.7 * share), y: at[side], dx: 0, dy: side === "top" ? -1 : 1};
  };
  return found.map((edge, index) => {
    const from = anchor(edge.from, ends[index][0], index);
    const to = anchor(edge.to, ends[index][1], index);
    const below = ends[index][0] === "bottom" && ends[index][1] === "bottom";
    return {from, to, bend: below ? {x: 0, y: 26} : {x: 0, y: 0}};
  });
}

// A path that meets both boxes at right angles, shifted `aside` pixels to the right of its direction.
function curve(from, to, bend, aside) {
  const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
  const side = {x: (-(to.y - from.y) / length) * aside, y: ((to.x - from.x) / length) * aside};
  const reach = bend.y ? 36 : Math.max(14, 0.42 * (from.dx ? Math.abs(to.x - from.x) : Math.abs(to.y - from.y)));
  const point = (at, out) =>
    (at.x + at.dx * out + side.x).toFixed(1) + " " + (at.y + at.dy * out + side.y).toFixed(1);
  return "M" + point(from, 0) + "C" + point(from, reach) + " " + point(to, reach) + " " + point(to, 0);
}
