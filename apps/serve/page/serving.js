// Polls the server and shows its models.

const kStages = ["parse", "queue", "batch", "run", "serialise", "total"];
const history = [];  // {at, rate, most, waiting, failed} of all versions, oldest first
const kServingCharts = [
  {id: "rate", title: "Requests per second", show: number, read: (point) => point.rate},
  {id: "most", title: "p99", show: duration, read: (point) => point.most},
  {id: "waiting", title: "Rows that wait", show: number, read: (point) => point.waiting},
  {id: "failed", title: "Failed per second", show: number, read: (point) => point.failed},
];

const rowsOfVersions = () =>
  known().flatMap((task) => (task.now.servables ?? []).map((servable) => {
    const before = task.before?.servables?.find((other) => servableKey(other) === servableKey(servable));
    return {task, servable, figures: servableFigures(servable, before, task.seconds)};
  }));

function rememberServing(rows) {
  const rates = rows.filter((row) => row.figures.rate !== undefined);
  const all = {count: 0, buckets: []};
  for (const {figures} of rows) {
    const total = figures.stage("total");
    all.count += total.count;
    total.buckets.forEach((count, i) => (all.buckets[i] = (all.buckets[i] ?? 0) + count));
  }
  history.push({
    at: Date.now(),
    rate: rates.length ? sum(rates.map((row) => row.figures.rate)) : NaN,
    most: rates.length ? percentileOf(all, 0.99) : NaN,
    waiting: sum(rows.map((row) => row.servable.waiting_rows)),
    failed: rates.length ? sum(rates.map((row) => row.figures.failed)) : NaN,
  });
  if (history.length > kHistory) history.shift();
}

function showStages(rows) {
  const stages = rows.flatMap((row) =>
    kStages.map((name) => ({...row, name, took: row.figures.stage(name)})).filter(({took}) => took.count > 0));
  showTable("stages", [
    {title: "Model", text: true, cell: (row) => row.servable.model},
    {title: "Version", cell: (row) => row.servable.version},
    {title: "Stage", text: true, cell: (row) => row.name},
    {title: "Median", cell: (row) => duration(percentileOf(row.took, 0.5))},
    {title: "p90", cell: (row) => duration(percentileOf(row.took, 0.9))},
    {title: "p99", cell: (row) => duration(percentileOf(row.took, 0.99))},
    {title: "Longest ever", cell: (row) => duration(row.servable.stages[row.name].longest_ns)},
  ], stages, (row) => servableKey(row.servable) + " " + row.name, "No requests.");
}

function showServing() {
  const rows = rowsOfVersions();
  const ready = rows.filter((row) => row.servable.state === "Ready").map((row) => row.servable);
  rememberServing(rows);
  showCharts("charts", kServingCharts, history);
  showTable("versions", servableColumns((row) => row.figures), rows,
    (row) => row.task.name + " " + servableKey(row.servable), "No model has a version.");
  showStages(rows);
  showSignatures(ready);
  learnSignatures(ready).then(() => showSignatures(ready));
  setText(byId("cluster"), location.host);
  byId("live").className = "live on";
  setText(byId("live").lastChild, "live, " + counted(ready.length, "version", "versions") + " ready");
}

watch(async () => {
  try {
    take(JSON.parse(await ask("snapshot")), Date.now());
    lastAnswer = Date.now();
    byId("notice").hidden = true;
    document.body.classList.remove("stale");
    showServing();
  } catch (error) {
    showSilence(error);
  }
});
