// Versions of served models: what they answered between two snapshots.

// The end of a bucket of durations, in nanoseconds: LatencyHistogram.
const bucketEnd = (bucket) => 1000 * 2 ** (bucket / 2);

// What came after `before`.
function newDurations(now, before) {
  if (!now) return {count: 0, buckets: []};
  const old = before && before.count <= now.count ? before : {count: 0, buckets: []};
  return {count: now.count - old.count, buckets: now.buckets.map((count, i) => count - (old.buckets[i] ?? 0))};
}

// In nanoseconds, interpolated in its bucket; NaN without durations.
function percentileOf(durations, part) {
  let rank = part * durations.count;
  for (const [i, count] of durations.buckets.entries()) {
    if (count > 0 && rank <= count) {
      const low = i ? bucketEnd(i - 1) : 0;
      return low + (bucketEnd(i) - low) * (rank / count);
    }
    rank -= count;
  }
  return NaN;
}

const servableKey = (servable) => servable.model + "/" + servable.version;
const failures = (servable) =>
  sum(Object.entries(servable.requests ?? {}).map(([outcome, count]) => (outcome === "ok" ? 0 : count)));
const answered = (servable) => servable.requests?.ok ?? 0;

// A version's figures of the time between two snapshots; of all time without the earlier one.
function servableFigures(now, before, seconds) {
  const stage = (name) => newDurations(now.stages?.[name], before?.stages?.[name]);
  const total = stage("total");
  const batches = sum(now.batches ?? []) - sum(before?.batches ?? []);
  const rows = now.batch_rows - (before?.batch_rows ?? 0);
  return {
    rate: before && seconds > 0 ? (answered(now) - answered(before)) / seconds : undefined,
    failed: before && seconds > 0 ? (failures(now) - failures(before)) / seconds : undefined,
    half: percentileOf(total, 0.5),
    most: percentileOf(total, 0.99),
    rows: batches > 0 ? rows / batches : NaN,
    stage,
  };
}

// Columns of a table of versions; `figures(row)`: servableFigures() of row.servable.
function servableColumns(figures) {
  const state = ({servable}) => {
    const told = servable.state + (servable.error ? ": " + servable.error : "");
    return servable.error ? marked(told, "trouble") : servable.state === "Ready" ? told : marked(told, "late");
  };
  return [
    {title: "Model", text: true, cell: (row) => row.servable.model},
    {title: "Version", cell: (row) => row.servable.version},
    {title: "Labels", text: true, cell: (row) => (row.servable.labels ?? []).join(", ") || "–"},
    {title: "State", text: true, wide: true, cell: state},
    {title: "Requests", cell: (row) => perSecond(figures(row).rate)},
    {title: "Median", cell: (row) => duration(figures(row).half)},
    {title: "p99", cell: (row) => duration(figures(row).most)},
    {title: "Rows of a batch", cell: (row) => number(figures(row).rows)},
    {title: "Wait", cell: (row) => number(row.servable.waiting_rows)},
    {title: "In flight", cell: (row) => number(row.servable.in_flight)},
    {title: "Answered", cell: (row) => number(answered(row.servable))},
    {title: "Failed", cell: (row) => (failures(row.servable) ? marked(number(failures(row.servable)), "late") : "0")},
    {title: "Memory", cell: (row) => bytes(row.servable.bytes)},
  ];
}
