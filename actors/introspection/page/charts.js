// Line charts since the page was opened, with their range and the value under the pointer.

const kChartHeight = 74;

// `charts`: {id, title, show(value) -> text, read(point of the history) -> value, fromZero}.
// `history`: {at (milliseconds), ...}, oldest first.
function showCharts(id, charts, history) {
  setChildren(byId(id), charts, (chart) => chart.id, (chart) => makeChart(chart, history),
    (made, chart) => updateChart(made, chart, history));
}

function makeChart(chart, history) {
  const svg = drawn("svg", {viewBox: "0 0 100 " + kChartHeight, preserveAspectRatio: "none", role: "img"});
  for (const y of [0.5, kChartHeight / 2, kChartHeight - 0.5]) {
    svg.append(drawn("line", {class: "grid-line", x1: 0, x2: 100, y1: y, y2: y}));
  }
  svg.append(
    drawn("path", {class: "area"}),
    drawn("path", {class: "line"}),
    drawn("line", {class: "at", y1: 0, y2: kChartHeight, visibility: "hidden"}));
  const made = element("div", {class: "chart", "data-chart": chart.id},
    element("div", {class: "title"}, element("h2", {}, chart.title), element("b")), svg,
    element("div", {class: "scale"}, element("span"), element("span")));
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    made.pointer = (event.clientX - box.left) / box.width;
    updateChart(made, chart, history);
  });
  svg.addEventListener("pointerleave", () => {
    made.pointer = undefined;
    updateChart(made, chart, history);
  });
  return made;
}

function updateChart(made, chart, history) {
  const points = history
    .map((point) => ({at: point.at, value: chart.read(point)}))
    .filter((point) => Number.isFinite(point.value));
  const values = points.map((point) => point.value);
  const high = values.length ? Math.max(...values) : 1;
  const low = chart.fromZero === false && values.length ? Math.min(...values) : 0;
  const margin = high > low ? 0 : Math.abs(high) || 1;
  const begin = points[0]?.at ?? 0;
  const length = Math.max(10000, (points.at(-1)?.at ?? 0) - begin);
  const x = (point) => (100 * (point.at - begin)) / length;
  const y = (point) => kChartHeight - 3 - ((kChartHeight - 6) * (point.value - low)) / (high - low + margin);
  const line = points.map((point) => x(point).toFixed(2) + " " + y(point).toFixed(1)).join("L");
  made.querySelector(".line").setAttribute("d", line ? "M" + line : "");
  const foot = (point) => x(point).toFixed(2) + " " + kChartHeight;
  const area = line ? "M" + foot(points[0]) + "L" + line + "L" + foot(points.at(-1)) + "Z" : "";
  made.querySelector(".area").setAttribute("d", area);
  const seen = made.pointer === undefined ? points.at(-1) : nearest(points, begin + made.pointer * length);
  const mark = made.querySelector(".at");
  mark.setAttribute("visibility", made.pointer !== undefined && seen ? "visible" : "hidden");
  if (seen) {
    mark.setAttribute("x1", x(seen));
    mark.setAttribute("x2", x(seen));
  }
  setText(made.querySelector(".title b"), seen ? chart.show(seen.value) : "–");
  const [from, range] = made.querySelectorAll(".scale span");
  const last = points.at(-1);
  const time = (milliseconds) => duration(milliseconds * 1e6);
  if (!last) setText(from, "no figures yet");
  else if (made.pointer === undefined) setText(from, time(last.at - begin) + " watched");
  else setText(from, time(last.at - seen.at) + " ago");
  setText(range, last ? chart.show(low) + " to " + chart.show(high) : "");
  const extent = chart.show(Math.min(...values)) + " to " + chart.show(high);
  const told = last ? ": now " + chart.show(last.value) + ", from " + extent : "";
  made.querySelector("svg").setAttribute("aria-label", chart.title + told);
}

function nearest(points, at) {
  const closer = (best, point) => (!best || Math.abs(point.at - at) < Math.abs(best.at - at) ? point : best);
  return points.reduce(closer, undefined);
}
