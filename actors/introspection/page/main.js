// Polls the cluster, one request at a time, and shows the answers.

const kPeriod = 1000, kHiddenPeriod = 10000, kPatience = 8000;  // milliseconds
const token = new URLSearchParams(location.hash.slice(1)).get("token");
addEventListener("hashchange", () => location.reload());  // a new address may have a new token
const kCausesShown = 4;
let lastAnswer;

// Returns the text of an answer. Throws an Error with a readable reason.
async function ask(what) {
  const giveUp = new AbortController();
  const timer = setTimeout(() => giveUp.abort(), kPatience);
  try {
    const headers = token ? {Authorization: "Bearer " + token} : {};
    const answer = await fetch(what, {cache: "no-store", signal: giveUp.signal, headers});
    const text = await answer.text();
    if (answer.status === 401 || answer.status === 403) {
      throw new Error("the token is missing or wrong; open this page with the whole address that was printed");
    }
    if (!answer.ok) throw new Error(reasonIn(text) || "status " + answer.status);
    return text;
  } catch (error) {
    if (giveUp.signal.aborted) throw new Error("no answer within " + kPatience / 1000 + " s");
    throw error instanceof TypeError ? new Error("the task cannot be reached, it may have ended") : error;
  } finally {
    clearTimeout(timer);
  }
}

// The message in an error answer: {"error": "..."}.
function reasonIn(text) {
  try {
    return String(JSON.parse(text).error ?? "").slice(0, 300);
  } catch {
    return text.slice(0, 300);
  }
}

async function watch(once) {
  for (;;) {
    const begun = Date.now();
    await once();
    await pause(Math.max(50, begun + (document.hidden ? kHiddenPeriod : kPeriod) - Date.now()));
  }
}

// Ends early when the page becomes visible.
function pause(milliseconds) {
  return new Promise((done) => {
    const timer = setTimeout(end, milliseconds);
    const look = () => document.hidden || end();
    document.addEventListener("visibilitychange", look);
    function end() {
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", look);
      done();
    }
  });
}

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
  showCharts();
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

function showSilence(error) {
  byId("live").className = "live off";
  setText(byId("live").lastChild, "no answer");
  const since = lastAnswer
    ? "No answer since " + new Date(lastAnswer).toLocaleTimeString() + ", showing old data: "
    : "No answer: ";
  setText(byId("notice"), since + error.message + ". Trying again.");
  byId("notice").hidden = false;
  document.body.classList.toggle("stale", Boolean(lastAnswer));
}

byId("more-links").addEventListener("click", () => {
  allLinks = !allLinks;
  showLinks();
});
new ResizeObserver(placeEdges).observe(byId("picture"));
watch(watchCluster);
watch(watchWhy);
