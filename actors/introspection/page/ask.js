// Asks the page's own server, one request at a time, and tells if it does not answer.

const kPeriod = 1000, kHiddenPeriod = 10000, kPatience = 8000;  // milliseconds
const token = new URLSearchParams(location.hash.slice(1)).get("token");
addEventListener("hashchange", () => location.reload());  // a new address may have a new token
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
