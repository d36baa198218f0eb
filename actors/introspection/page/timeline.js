// The last steps of each training task, on one clock.

const kStepColours = 6;
const kStepsShown = 24;  // per task, approximately

function stepsOf(task) {
  return (task.now.training.recent ?? []).map((step) => {
    const begin = task.now.unix_ns - step.begin_ns;
    return {...step, begin, end: begin + step.took_ns};
  });
}

function showTimeline() {
  const rows = known().filter((task) => task.now.training).map((task) => ({task, steps: stepsOf(task)}));
  byId("timeline-card").hidden = !rows.length;
  const shown = rows.flatMap((row) => (row.task.answered ? row.steps : []));
  const window = shownTime(shown);
  const length = duration(window.end - window.begin);
  const note = shown.length ? "The last " + length + "; a step has one colour on all tasks" : "no steps yet";
  setText(byId("timeline-note"), note);
  const lines = rows.flatMap((row) => [{key: row.task.name + " name", row}, {key: row.task.name, row, bars: true}]);
  if (shown.length) lines.push({key: "scale", scale: true});
  setChildren(byId("timeline"), lines, (line) => line.key, makeLine, (node, line) => {
    if (line.scale) {
      setText(node.firstChild, "−" + length);
      setText(node.lastChild, "end of the last step");
    } else if (line.bars) {
      showSteps(node, line.row, window);
    } else {
      setText(node, shortName(line.row.task.name));
    }
  });
}

function makeLine(line) {
  if (line.scale) return element("div", {class: "scale"}, element("span"), element("span"));
  return line.bars ? drawn("svg", {role: "img", "data-steps-of": line.row.task.name}) : element("span");
}

// A period short enough to tell single steps apart.
function shownTime(steps) {
  if (!steps.length) return {begin: 0, end: 1};
  const end = Math.max(...steps.map((step) => step.end));
  const lengths = steps.map((step) => step.took_ns).sort((a, b) => a - b);
  const wanted = kStepsShown * Math.max(1, lengths[Math.floor(lengths.length / 2)]);
  const oldest = Math.min(...steps.map((step) => step.begin));
  return {begin: Math.max(oldest, end - wanted), end};
}

function showSteps(svg, row, window) {
  const width = svg.clientWidth || 300;
  const scale = width / (window.end - window.begin);
  const inWindow = (step) => step.end > window.begin && step.begin < window.end;
  const visible = row.task.answered ? row.steps.filter(inWindow) : [];
  const steps = visible.length + " steps, the last is " + (visible.at(-1)?.step ?? "none");
  svg.setAttribute("aria-label", row.task.answered ? steps : "does not answer");
  svg.replaceChildren();
  if (!row.task.answered) {
    const text = drawn("text", {class: "silent", x: width / 2, y: 11});
    text.textContent = "does not answer";
    svg.append(text);
  }
  for (const step of visible) {
    const begin = Math.max(0, (step.begin - window.begin) * scale);
    const length = Math.max(1.5, (step.end - window.begin) * scale - begin - 1);
    const bar = drawn("rect", {x: begin.toFixed(1), y: 2, width: length.toFixed(1), height: 18, rx: 2});
    bar.style.fill = "var(--step-" + (step.step % kStepColours) + ")";
    const title = drawn("title");
    const figures = [duration(step.took_ns), "loss " + number(step.loss), step.examples + " examples"];
    title.textContent = "step " + step.step + ", slot " + step.slot + ": " + figures.join(", ");
    bar.append(title);
    svg.append(bar);
    const label = String(step.step);
    if (length < 7.5 * label.length) continue;
    const text = drawn("text", {x: (begin + length / 2).toFixed(1), y: 11});
    text.textContent = label;
    svg.append(text);
  }
}
