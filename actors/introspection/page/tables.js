// Workers, shards, pipelines, devices and connections.

function showTables() {
  showWorkers();
  showShards();
  showPipelines();
  showServables();
  showDevices();
  showLinks();
}

function showWorkers() {
  const members = new Map((job()?.members ?? []).map((member) => [member.task, member]));
  const names = new Set([...members.keys(), ...known().filter((task) => task.now.training).map((task) => task.name)]);
  const rows = [...names].map((name) => ({name, member: members.get(name), task: cluster.tasks.get(name)}));
  const training = (row) => row.task?.now?.training;
  const state = (row) => {
    const told = row.member?.state ?? "";
    if (row.task && !row.task.answered) return marked((told ? told + ", " : "") + "does not answer", "trouble");
    return marked(told || "trains", told === "lost" ? "trouble" : told === "suspect" ? "late" : "");
  };
  const doing = (row) => {
    const told = row.task?.answered && training(row);
    return told?.doing ? told.doing + (told.doing_ns ? " for " + duration(told.doing_ns) : "") : "–";
  };
  showTable("workers", [
    {title: "Task", text: true, cell: (row) => shortName(row.name)},
    {title: "State", text: true, cell: state},
    {title: "Does", text: true, wide: true, cell: doing},
    {title: "Tokens", text: true, wide: true, cell: (row) => row.member?.tokens?.join(", ") || "–"},
    {title: "Steps", cell: (row) => (training(row) ? number(training(row).steps) : "–")},
    {title: "Images", cell: (row) => perSecond(row.task && rate(row.task, (snapshot) => snapshot.training?.examples))},
    {title: "Loss", cell: (row) => (training(row)?.steps ? number(training(row).loss) : "–")},
  ], rows, (row) => row.name);
}

function showShards() {
  const rows = shards();
  const count = (name) => (row) => number(row.counts?.[name] ?? 0);
  const shardOf = (snapshot, row) =>
    snapshot.shards?.find((shard) => shard.shard === row.shard && shard.job === row.job);
  const grows = (name) => (row) => number(rate(row.task, (snapshot) => shardOf(snapshot, row)?.counts?.[name]));
  const drops = ["stale", "uncommitted", "fenced", "abandoned"];
  const dropped = (row) => number(sum(drops.map((name) => row.counts?.[name] ?? 0)));
  const missing = (row) =>
    row.missing?.length ? marked(row.missing.join(", "), row.staged > 0 ? "late" : "") : "–";
  showTable("shards", [
    {title: "Shard", text: true, cell: (row) => row.shard + " on " + shortName(row.task.name)},
    {title: "Size", cell: (row) => bytes(row.bytes)},
    {title: "Version", cell: (row) => number(row.version)},
    {title: "Staged", cell: (row) => (row.needed ? row.staged + " of " + row.needed : number(row.staged))},
    {title: "Missing slots", cell: missing},
    {title: "Pulls", cell: count("pulls")},
    {title: "Pulls/s", cell: grows("pulls")},
    {title: "Pushes", cell: count("pushes")},
    {title: "Pushes/s", cell: grows("pushes")},
    {title: "Pulls that wait", cell: (row) => number(row.parked)},
    {title: "Dropped", cell: dropped},
    {title: "Duplicates", cell: count("duplicates")},
    {title: "Waits for", text: true, wide: true, cell: (row) => shortName(row.waits_for) || "–"},
  ], rows, (row) => row.task.name + " " + row.shard + " " + row.job);
}

// A row for each stage of a pipeline, and one for the batches made of its elements.
function showPipelines() {
  const pipelines = known().flatMap((task) => (task.now.pipelines ?? []).map((pipeline) => ({task, pipeline})));
  const rows = pipelines.flatMap(({task, pipeline}) => {
    const busiest = Math.max(...(pipeline.stages ?? []).map((stage) => stage.busy));
    const stages = (pipeline.stages ?? []).map((stage, place) => ({
      task, pipeline, stage, place, slow: stage.busy > 0.5 && stage.busy === busiest}));
    return pipeline.makers ? [...stages, {task, pipeline}] : stages;
  });
  const same = (snapshot, row) => snapshot.pipelines?.find((pipeline) => pipeline.data === row.pipeline.data);
  const made = (snapshot, row) =>
    row.stage ? same(snapshot, row)?.stages?.[row.place]?.elements : same(snapshot, row)?.made;
  const ofBatches = (cell) => (row) => (row.stage ? "–" : cell(row.pipeline));
  showTable("pipelines", [
    {title: "Task", text: true, cell: (row) => shortName(row.task.name)},
    {title: "Data", text: true, cell: (row) => row.pipeline.data},
    {title: "Stage", text: true, cell: (row) => row.stage?.name ?? "batches"},
    {title: "Made", cell: (row) => perSecond(rate(row.task, (snapshot) => made(snapshot, row)))},
    {title: "Busy", cell: (row) => (row.stage ? marked(percent(row.stage.busy), row.slow ? "late" : "") : "–")},
    {title: "Queue", cell: ofBatches((pipeline) => number(pipeline.wanted + pipeline.making))},
    {title: "Parallel", cell: ofBatches((pipeline) => number(pipeline.makers))},
    {title: "Memory", cell: (row) => bytes(row.stage ? row.stage.held_bytes : row.pipeline.kept_bytes)},
    {title: "In all", cell: (row) => number(row.stage ? row.stage.elements : row.pipeline.made)},
    {title: "Waited for", cell: ofBatches((pipeline) => number(pipeline.waited))},
    {title: "Skipped", cell: (row) => (row.stage ? number(row.stage.skipped_records) : "–")},
  ], rows, (row) => row.task.name + " " + row.pipeline.data + " " + (row.place ?? "batches"));
}

function showServables() {
  const rows = known().flatMap((task) => (task.now.servables ?? []).map((servable) => ({task, servable})));
  const figures = ({task, servable}) => {
    const same = task.before?.servables?.find((other) => servableKey(other) === servableKey(servable));
    return servableFigures(servable, same, task.seconds);
  };
  showTable("servables", servableColumns(figures), rows, (row) => row.task.name + " " + servableKey(row.servable));
}

let allLinks = false;

function showLinks() {
  const all = known().flatMap((task) => (task.now.links ?? []).map((link) => ({task, link})));
  const troubled = ({task, link}) => task.answered && (!link.up || link.suspect || link.stalled);
  const carries = ({task, link}) => rate(task, (snapshot) => linkTo(snapshot, link.peer)?.bytes_sent) >= kIdleTraffic;
  const rows = allLinks ? all : all.filter((row) => troubled(row) || carries(row));
  const more = byId("more-links");
  more.hidden = all.length === rows.length && !allLinks;
  setText(more, allLinks ? "Only those that carry tensors" : "All " + all.length + " connections");
  const state = ({task, link}) => {
    if (!task.answered) return marked("unknown", "late");
    if (!link.up) return marked("down", "trouble");
    if (link.suspect) return marked("suspect, heard " + duration(link.heard_ns) + " ago", "trouble");
    if (link.stalled) return marked("stalled: waits for credit", "late");
    return link.shared_memory ? "up, shared memory" : "up";
  };
  const sent = (row, read) => rate(row.task, (snapshot) => read(linkTo(snapshot, row.link.peer)));
  const queued = ({link}) => marked(number(link.queued_frames) + " frames, " + bytes(link.queued_bytes), "late");
  const credit = ({link}) => bytes(link.credit) + " of " + bytes(link.window);
  showTable("links", [
    {title: "From", text: true, cell: (row) => shortName(row.task.name) + " to " + shortName(row.link.peer)},
    {title: "State", text: true, cell: state},
    {title: "Sends", cell: (row) => perSecond(sent(row, (link) => link?.bytes_sent), bytes)},
    {title: "Frames", cell: (row) => perSecond(sent(row, (link) => link?.frames_sent))},
    {title: "Sent", cell: (row) => bytes(row.link.bytes_sent)},
    {title: "Received", cell: (row) => bytes(row.link.bytes_received)},
    {title: "Queued", cell: (row) => (row.link.queued_frames ? queued(row) : "–")},
    {title: "Credit", cell: (row) => (row.link.window ? credit(row) : "–")},
  ], rows, (row) => row.task.name + " " + row.link.peer, all.length ? "No connection carries tensors now." : undefined);
}

// "3 × MatMul 'dense/matmul' f32[784,128]"
const tensorName = ({name, type, count}) => (count > 1 ? count + " × " : "") + [name, type].filter(Boolean).join(" ");

function showDevices() {
  const rows = known().flatMap((task) => (task.now.devices ?? []).map((device) => ({task, device})));
  setChildren(byId("devices"), rows, (row) => row.task.name + " " + row.device.name, makeDevice, updateDevice);
}

function makeDevice() {
  const memory = [element("i"), element("i", {class: "used"}), element("i", {class: "peak"})];
  return element("div", {class: "device"},
    element("div", {class: "name"}),
    element("div", {class: "hint runs"}),
    element("div", {class: "memory", role: "img"}, ...memory),
    element("div", {class: "hint uses"}),
    element("h3", {}, "Largest tensors"),
    element("dl", {class: "pairs"}));
}

function deviceDoing(task, device) {
  if (device.failure) return device.failure;
  const deviceIn = (snapshot) => snapshot.devices?.find((each) => each.name === device.name);
  const busy = rate(task, (snapshot) => (deviceIn(snapshot)?.busy_ns ?? 0) / 1e9);
  const work = task.answered ? percent(busy) + " busy, " + number(device.nodes_run) + " nodes run" : "does not answer";
  const current = device.running && task.answered ? ", now " + device.running : "";
  return work + current + (device.queue ? ", " + device.queue + " segments queued" : "");
}

function updateDevice(box, {task, device}) {
  const name = device.name.startsWith(task.name) ? shortName(device.name) : shortName(task.name) + " " + device.name;
  setText(box.querySelector(".name"), name.replace("/device:", " "));
  box.querySelector(".runs").classList.toggle("trouble", Boolean(device.failure));
  setText(box.querySelector(".runs"), deviceDoing(task, device));
  const whole = device.limit_bytes || device.peak_bytes || 1;
  const [held, used, peak] = box.querySelectorAll(".memory i");
  const width = (amount) => Math.min(100, (100 * amount) / whole).toFixed(2) + "%";
  held.style.width = width(device.bytes_in_use + device.cached_bytes);
  used.style.width = width(device.bytes_in_use);
  peak.style.left = "calc(" + width(device.peak_bytes) + " - 2px)";
  const uses = [
    bytes(device.bytes_in_use) + " in use",
    bytes(device.cached_bytes) + " cached",
    "peak " + bytes(device.peak_bytes),
    device.limit_bytes ? "limit " + bytes(device.limit_bytes) : "",
    device.pinned_bytes ? bytes(device.pinned_bytes) + " pinned on the host" : "",
  ].filter(Boolean).join(", ");
  setText(box.querySelector(".uses"), uses);
  box.querySelector(".memory").setAttribute("aria-label", uses);
  const largest = (device.largest ?? []).map((tensor, index) => ({...tensor, index}));
  box.querySelector("h3").hidden = !largest.length;
  const cells = largest.flatMap((tensor) => [
    {tensor, tag: "dt", text: tensorName(tensor)},
    {tensor, tag: "dd", text: bytes(tensor.bytes * (tensor.count ?? 1))},
  ]);
  setChildren(box.querySelector("dl"), cells, (each) => each.tag + each.tensor.index, (each) => element(each.tag),
    (node, each) => setText(node, each.text));
}
