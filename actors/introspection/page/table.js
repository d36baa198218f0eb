// Tables whose rows stay while their figures change.

// `columns`: {title, cell(row) -> text, or {text, mark}; text: aligned left; wide: a separate line on a phone}.
// `nothing`: shown if there are no rows; without it the card is hidden then.
function showTable(id, columns, rows, keyOf, nothing) {
  const table = byId(id);
  if (!table.tBodies.length) {
    const titles = columns.map((column) =>
      element("th", {scope: "col", class: column.text ? "text" : undefined}, column.title));
    table.append(element("thead", {}, element("tr", {}, ...titles)), element("tbody"));
    table.after(element("p", {class: "empty"}, nothing ?? ""));
  }
  table.closest(".card").hidden = !rows.length && nothing === undefined;
  table.nextSibling.hidden = rows.length > 0;
  table.hidden = rows.length === 0;
  setChildren(table.tBodies[0], rows, keyOf,
    () => element("tr", {}, ...columns.map((column) => element("td", {"data-label": column.title}))),
    (line, row) => {
      line.classList.toggle("silent", row.task?.answered === false);
      columns.forEach((column, index) => {
        const told = column.cell(row);
        const {text, mark} = typeof told === "object" ? told : {text: told, mark: ""};
        setText(line.cells[index], text);
        line.cells[index].className = [column.text && "text", column.wide && "wide", mark].filter(Boolean).join(" ");
      });
    });
}

const marked = (text, mark) => ({text, mark});
