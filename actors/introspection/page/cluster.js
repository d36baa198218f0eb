// State of the cluster: the last two snapshots of each task, and figures derived from them.

const cluster = {
  name: "",
  tasks: new Map(),  // by name; a silent task keeps its last snapshot
  history: [],       // {at, images, steps, traffic, loss, mailbox} per answer, oldest first
  causes: [],
  why: "",
};
const kHistory = 600;

// `now`: time on this page's clock, in milliseconds.
function take(snapshot, now) {
  cluster.name = snapshot.cluster;
  const names = new Set();
  for (const report of snapshot.tasks ?? []) {
    names.add(report.task);
    const task = cluster.tasks.get(report.task) ??
      {name: report.task, heard: undefined, first: now, now: undefined, before: undefined};
    task.answered = report.answered;
    task.error = report.error;
    task.address = report.address;
    task.took = report.took_ns;
    if (report.answered && report.snapshot) {
      takeTask(task, report.snapshot);
      task.heard = now;
    }
    task.silentFor = task.answered ? 0 : (now - (task.heard ?? task.first)) * 1e6;
    cluster.tasks.set(report.task, task);
  }
  for (const name of cluster.tasks.keys()) if (!names.has(name)) cluster.tasks.delete(name);
  cluster.tasks = new Map([...names].map((name) => [name, cluster.tasks.get(name)]));
  remember(now);
}

function takeTask(task, snapshot) {
  const last = task.now;
  if (last && last.incarnation === snapshot.incarnation) {
    // A repeated snapshot gives no rates.
    if (snapshot.unix_ns > last.unix_ns) task.before = last;
  } else {
    task.before = undefined;  // a new process: its counters start at 0
  }
  task.now = snapshot;
  task.seconds = task.before ? (snapshot.unix_ns - task.before.unix_ns) / 1e9 : undefined;
}

// Growth per second; undefined until there are two snapshots.
function rate(task, read) {
  if (!task.answered || !task.before || !(task.seconds > 0)) return undefined;
  const grown = (read(task.now) ?? 0) - (read(task.before) ?? 0);
  return grown < 0 ? undefined : grown / task.seconds;
}

const answering = () => [...cluster.tasks.values()].filter((task) => task.answered && task.now);
const known = () => [...cluster.tasks.values()].filter((task) => task.now);

// Undefined only if no task has a rate yet.
function rateOfAll(read) {
  const rates = answering().map((task) => rate(task, read)).filter((each) => each !== undefined);
  return rates.length ? sum(rates) : undefined;
}

const sentBytes = (snapshot) => sum((snapshot.links ?? []).map((link) => link.bytes_sent ?? 0));

// The job as seen by its coordinator or, without one, by the most advanced worker.
function job() {
  const tasks = known();
  const coordinator = tasks.find((task) => task.now.job && task.answered) ?? tasks.find((task) => task.now.job);
  if (coordinator) {
    const jobRate = rate(coordinator, (snapshot) => snapshot.job?.step);
    return {...coordinator.now.job, rate: jobRate, task: coordinator};
  }
  const loops = tasks.filter((task) => task.now.training).sort((a, b) => b.now.training.step - a.now.training.step);
  if (!loops.length) return undefined;
  const {mode, epoch, epochs, step, all_steps: steps} = loops[0].now.training;
  const loopRate = rate(loops[0], (snapshot) => snapshot.training?.step);
  return {mode, epoch, epochs, step, steps, stage: "", members: [], counts: {}, rate: loopRate, task: loops[0]};
}

// Metrics of the last complete epoch, from the most advanced task: {test_accuracy, train_accuracy}.
function metrics() {
  const told = known()
    .map((task) => task.now.training)
    .filter((training) => training && Object.keys(training.metrics ?? {}).length);
  return told.sort((a, b) => b.epoch - a.epoch)[0]?.metrics ?? {};
}

// Nanoseconds to the end of the job at its current speed; undefined if unknown.
function timeLeft(work) {
  if (!work?.steps || !(work.rate > 0)) return undefined;
  return (Math.max(0, work.steps - work.step) / work.rate) * 1e9;
}

const silentTasks = () => [...cluster.tasks.values()].filter((task) => !task.answered);
const stuckCause = () => cluster.causes.find((cause) => cause.kind !== "working" && cause.waiters > 0);
const alone = () => cluster.tasks.size <= 1;

// True if an actor is idle and was since the last answer.
function isQuiet(task, actor) {
  const messages = actorRate(task, actor, (each) => each.handled + each.passed) ?? 0;
  return actor.state === "idle" && !actor.mailbox && !(messages >= 0.5);
}

function meanLoss() {
  const losses = answering().filter((task) => task.now.training?.steps > 0).map((task) => {
    const recent = task.now.training.recent ?? [];
    return recent.length ? sum(recent.map((step) => step.loss)) / recent.length : task.now.training.loss;
  });
  return losses.length ? sum(losses) / losses.length : undefined;
}

const shards = () => known().flatMap((task) => (task.now.shards ?? []).map((shard) => ({task, ...shard})));

function remember(now) {
  cluster.history.push({
    at: now,
    images: rateOfAll((snapshot) => snapshot.training?.examples),
    steps: job()?.rate,
    traffic: rateOfAll(sentBytes),
    loss: meanLoss(),
    mailbox: sum(answering().flatMap((task) => (task.now.actors ?? []).map((actor) => actor.mailbox))),
  });
  if (cluster.history.length > kHistory) cluster.history.shift();
}

// Actors of a task, with kinds in the snapshot's order. Merges actors with the same kind and name (the partitions of a
// device).
function actorsOf(task) {
  const actors = [...merged(task.now).values()];
  const kinds = [...new Set(actors.map((actor) => actor.kind))];
  const byName = (a, b) => a.name.localeCompare(b.name, undefined, {numeric: true});
  return actors.sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind) || byName(a, b));
}

const kActorStates = ["idle", "waits", "busy", "failed"];  // by rising precedence when merged

function merged(snapshot) {
  const found = new Map();
  for (const actor of snapshot?.actors ?? []) {
    const key = actor.kind + " " + actor.name;
    const one = found.get(key);
    found.set(key, one ? merge(one, actor) : {...actor, key, times: 1});
  }
  return found;
}

function merge(one, other) {
  const both = {...one, times: one.times + 1};
  const louder = kActorStates.indexOf(other.state) > kActorStates.indexOf(one.state) ? other : one;
  for (const name of ["state", "current", "current_ns", "waits_for", "waits_ns"]) both[name] = louder[name];
  for (const name of ["mailbox", "handled", "passed", "sent", "restarts", "busy_ns"]) both[name] += other[name];
  both.mailbox_peak = Math.max(one.mailbox_peak, other.mailbox_peak);
  for (const name of ["messages", "peers"]) {
    both[name] = {...one[name]};
    for (const [each, count] of Object.entries(other[name] ?? {})) both[name][each] = (both[name][each] ?? 0) + count;
  }
  return both;
}

const actorBefore = (task, actor) => merged(task.before).get(actor.key);

// Name of an actor within its task.
function ownName(task, actor) {
  const prefix = task.name + "/device:";
  const local = actor.name.startsWith(prefix) ? actor.name.slice(prefix.length) : actor.name;
  const name = actor.name === task.name ? "" : local;
  return shortName(name) + (actor.times > 1 ? " ×" + actor.times : "");
}

// Growth per second of a counter of one actor; undefined as in rate().
function actorRate(task, actor, read) {
  const before = actorBefore(task, actor);
  if (!task.answered || !before || !(task.seconds > 0)) return undefined;
  const grown = (read(actor) ?? 0) - (read(before) ?? 0);
  return grown < 0 ? undefined : grown / task.seconds;
}

// Traffic from one task to another, in bytes per second: as reported by the sender, or else by the receiver.
function traffic(from, to) {
  const told = rate(from, (snapshot) => linkTo(snapshot, to.name)?.bytes_sent);
  return told ?? rate(to, (snapshot) => linkTo(snapshot, from.name)?.bytes_received);
}

const linkTo = (snapshot, peer) => (snapshot?.links ?? []).find((link) => link.peer === peer);
