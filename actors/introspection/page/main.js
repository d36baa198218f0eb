// Polls the cluster and shows the answers.

const kCausesShown = 4;
const kCharts = [
  {id: "images", title: "Images per second", show: number, read: (point) => point.images},
  {id: "traffic", title: "Bytes per second between tasks", show: bytes, read: (point) => point.traffic, among: true},
  {id: "loss", title: "Loss", show: number, read: (point) => point.loss, fromZero: false},
  {id: "mailbox", title: "Messages in mailboxes", show: number, read: (point) => point.mailbox},
];

async function watchCluster() {
  try {
    take(JSON.parse(await ask("snapshot")), Date.now());
    lastAnswer = Date.now();
    showLive();
    showAll();
  } catch (error) {
    showSilence(error);
  }
}

async function watchWhy() {
  try {
    const told = JSON.parse(await ask("why?json"));
    cluster.causes = told.causes ?? [];
    cluster.why = told.text ?? "";
    showWhy();
    if (lastAnswer) showHeader();
  } catch (error) {
    // watchCluster reports a missing answer.
  }
}

function showAll() {
  showHeader();
  showFigures();
  showPicture();
  showCharts("charts", kCharts.filter((chart) => !chart.among || !alone()), cluster.history);
  showTimeline();
  showTables();
  showDetails();
}

function showWhy() {
  // Trouble moves above the charts; work in progress would change the order all the time.
  byId("why").classList.toggle("trouble", cluster.causes.some((cause) => cause.kind !== "working"));
  const shown = cluster.causes.slice(0, kCausesShown).map((cause, index) => ({...cause, index}));
  const parts = ["kind", "what", "hint"];
  const make = () => element("li", {class: "cause"}, ...parts.map((part) => element("span", {class: part})));
  setChildren(byId("causes"), shown, (cause) => cause.index, make, (item, cause) => {
    item.dataset.kind = cause.kind;
    setText(item.children[0], cause.kind);
    setText(item.children[1], shortName(cause.text));
    const waiters = cause.waiters ? counted(cause.waiters, "waits for it", "wait for it") : "";
    const age = cause.for_ns ? "for " + duration(cause.for_ns) : "";
    setText(item.children[2], [waiters, age].filter(Boolean).join(", "));
  });
  const more = cluster.causes.length - kCausesShown;
  byId("nothing").hidden = cluster.causes.length > 0 && more <= 0;
  setText(byId("nothing"), more > 0 ? "and " + more + " more" : "Nothing waits.");
  setText(byId("why-text"), cluster.why);
  byId("why").querySelector("details").hidden = !cluster.why;
}

function showLive() {
  const silent = silentTasks().length;
  byId("live").className = silent || stuckCause() ? "live late" : "live on";
  const tasks = counted(cluster.tasks.size, "task", "tasks");
  setText(byId("live").lastChild, "live, " + tasks + (silent ? ", " + silent + " silent" : ""));
  byId("notice").hidden = true;
  document.body.classList.remove("stale");
}

byId("more-links").addEventListener("click", () => {
  allLinks = !allLinks;
  showLinks();
});
new ResizeObserver(placeEdges).observe(byId("picture"));
watch(watchCluster);
watch(watchWhy);
