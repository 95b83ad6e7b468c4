// The same numbers as a table, for those who do not see plots; made when it is opened.

const MOST_ROWS = 200;

// `make()` returns {columns, rows}; the newest 200 rows are shown.
export function tableOnDemand(figure, make) {
  const details = figure.querySelector("details");
  if (!details) return () => {};
  const fill = () => details.open && details.querySelector(".p-table").replaceChildren(...content(make()));
  details.addEventListener("toggle", fill);
  return fill;
}

function content({ columns, rows }) {
  const table = document.createElement("table");
  table.className = "t-table";
  const head = table.createTHead().insertRow();
  for (const column of columns) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = column;
    head.append(cell);
  }
  const body = table.createTBody();
  for (const cells of rows.slice(-MOST_ROWS).reverse()) {
    const row = body.insertRow();
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  const said = document.createElement("p");
  said.className = "t-muted";
  said.textContent = rows.length > MOST_ROWS
    ? `The newest ${MOST_ROWS} of ${rows.length} points; the CSV has all of them.`
    : `${rows.length} points, newest first.`;
  return [said, table];
}
