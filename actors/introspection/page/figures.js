// The tiles at the top.

// The figure to show of those of the last epoch: the first that is no loss, of the evaluation and of the training.
function mainFigure(all) {
  const names = Object.keys(all).filter((name) => !name.startsWith("val_"));
  const name = names.find((candidate) => !candidate.includes("loss")) ?? names[0] ?? "figure";
  const shown = (value) => (Number.isFinite(value) ? value.toFixed(4) : undefined);
  return {
    title: name[0].toUpperCase() + name.slice(1).replaceAll("_", " "),
    trained: shown(all[name]),
    evaluated: shown(all["val_" + name]),
  };
}

function figures() {
  const work = job();
  const told = shards();
  const ifTold = (text) => (told.length ? text : "");
  const count = (name) => sum(told.map((shard) => shard.counts?.[name] ?? 0));
  const dropped = count("stale") + count("uncommitted") + count("fenced") + count("abandoned");
  const staleness = [];
  for (const shard of told) {
    (shard.staleness ?? []).forEach((value, index) => (staleness[index] = (staleness[index] ?? 0) + value));
  }
  const latest = cluster.history.at(-1) ?? {};
  const workers = answering().filter((task) => task.now.training).length;
  const left = timeLeft(work);
  const figure = mainFigure(metrics());
  const latestOf = (value, show = number) => (value === undefined ? "–" : show(value));
  const all = [
    {
      id: "epoch",
      title: "Epoch",
      value: work ? number(work.epoch) : "–",
      of: work?.epochs ? "of " + number(work.epochs) : "",
      note: work?.mode ? "mode " + work.mode : "",
      share: work?.steps ? work.step / work.steps : undefined,
    },
    {
      id: "step",
      title: "Global step",
      value: work ? number(work.step) : "–",
      note: work?.steps ? "of " + number(work.steps) : "",
    },
    {id: "left", title: "Time left", value: latestOf(left, roughTime), note: left === undefined ? "" : "at this speed"},
    {
      id: "steps",
      title: "Steps",
      value: latestOf(latest.steps),
      of: "/s",
      note: latest.steps > 0 ? duration(1e9 / latest.steps) + " each" : "",
    },
    {
      id: "images",
      title: "Images",
      value: latestOf(latest.images),
      of: "/s",
      note: counted(workers, "task trains", "tasks train"),
    },
    {
      id: "traffic",
      hidden: alone(),
      title: "Between tasks",
      value: latestOf(latest.traffic, bytes),
      of: "/s",
      note: ifTold(number(count("pulls")) + " pulls"),
    },
    {id: "loss", title: "Loss", value: latestOf(latest.loss), note: "of the last steps"},
    {
      id: "figure",
      title: figure.title,
      value: figure.evaluated ?? figure.trained ?? "–",
      note: figure.evaluated && figure.trained ? "training " + figure.trained : "after an epoch",
    },
    {
      id: "dropped",
      hidden: !told.length,
      title: "Dropped",
      value: told.length ? number(dropped) : "–",
      note: ifTold(counted(count("duplicates"), "duplicate", "duplicates")),
    },
    {
      id: "staleness",
      hidden: !told.length,
      title: "Staleness",
      bars: lastOf(staleness),
      note: ifTold(stalenessNote(staleness)),
    },
  ];
  return all.filter((figure) => !figure.hidden);
}

// Drops empty buckets at the end, but keeps at least four.
function lastOf(buckets) {
  let length = buckets.length;
  while (length > 4 && !buckets[length - 1]) --length;
  return Array.from({length: Math.max(4, length)}, (_, index) => buckets[index] ?? 0);
}

function stalenessNote(buckets) {
  const all = sum(buckets.map((value) => value ?? 0));
  if (!all) return "no updates yet";
  const mean = sum(buckets.map((value, index) => (value ?? 0) * index)) / all;
  return mean === 0 ? "none late" : "mean " + number(mean);
}

function showFigures() {
  setChildren(byId("tiles"), figures(), (figure) => figure.id, makeTile, updateTile);
}

function makeTile(figure) {
  const tile = element("div", {class: "tile", "data-figure": figure.id}, element("h3", {}, figure.title));
  if (figure.bars) {
    tile.append(element("div", {class: "histogram", role: "img"}));
  } else {
    tile.append(element("div", {class: "value"}, element("span"), " ", element("small")));
  }
  if (figure.id === "epoch") tile.append(element("div", {class: "meter"}, element("i")));
  tile.append(element("div", {class: "note"}));
  return tile;
}

function updateTile(tile, figure) {
  if (figure.bars) {
    const most = Math.max(1, ...figure.bars);
    const histogram = tile.querySelector(".histogram");
    const counts = figure.bars.map((bar, late) => late + ": " + bar).join(", ");
    const told = "gradients by staleness in updates: " + counts;
    histogram.setAttribute("aria-label", told);
    histogram.title = told;
    setChildren(histogram, figure.bars.map((bar, late) => ({bar, late})), (each) => each.late, () => element("i"),
      (bar, each) => (bar.style.height = Math.round((100 * each.bar) / most) + "%"));
  } else {
    setText(tile.querySelector(".value span"), figure.value);
    setText(tile.querySelector(".value small"), figure.of ?? "");
  }
  const meter = tile.querySelector(".meter");
  if (meter) {
    meter.hidden = figure.share === undefined;
    meter.firstChild.style.width = percent(figure.share ?? 0).replace("\u202f", "");
  }
  setText(tile.querySelector(".note"), figure.note);
}

function showHeader() {
  const work = job();
  setText(byId("cluster"), cluster.name);
  const failure = known().map((task) => task.now.failure).find((text) => text);
  const silent = silentTasks().length;
  const own = work?.stage || (work ? "training" : "no job");
  const stage = failure ? "failed" : stuckCause() ? "stuck" : silent ? own + ", " + silent + " silent" : own;
  setText(byId("stage"), stage);
  byId("stage").hidden = false;
  byId("stage").classList.toggle("failed", Boolean(failure || stuckCause()));
  byId("stage").classList.toggle("late", silent > 0);
  document.title = (cluster.name ? cluster.name + " · " : "") + stage + " · Troupe";
}
