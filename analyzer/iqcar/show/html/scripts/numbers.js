// The numbers behind a picture: a table whose cells narrow the next view, and that can be copied.
const numbers = (() => {
  // columns: [{ title, number?, unit?, text(row, write), raw?(row), pick?(row), picked?(row), colour?(row) }]
  function table(place, caption, columns, rows, empty) {
    if (!rows.length) {
      place.replaceChildren(make('p', { class: 'empty' }, empty));
      return;
    }
    const focused = place.contains(document.activeElement) ? document.activeElement.dataset.at : null;
    const head = make('tr', {}, ...columns.map((column) =>
      make('th', { scope: 'col', class: column.number ? 'number' : null }, column.title)));
    const writers = columns.map((column) => (column.unit === 'ms' ? words.oneUnit(rows.map(column.raw)) : null));
    const body = rows.map((row, at) => make('tr', {}, ...columns.map((column, position) =>
      cell(column, row, column.text(row, writers[position]), position === 0, `${at}/${position}`))));
    place.replaceChildren(
      make('div', { class: 'table', tabindex: '0', role: 'region', 'aria-label': caption },
        make('table', {}, make('caption', {}, caption), make('thead', {}, head), make('tbody', {}, ...body))),
      make('p', { class: 'actions' }, copyButton('Copy table', () => separated(columns, rows), 'The table')),
    );
    // What the keyboard was on stays under it when a choice redraws the table.
    if (focused) place.querySelector(`[data-at="${focused}"]`)?.focus({ preventScroll: true });
  }

  function cell(column, row, text, first, at) {
    const swatch = column.colour ? dot(column.colour(row)) : null;
    const picked = column.picked ? column.picked(row) : false;
    const inside = column.pick && column.pick(row)
      ? make('button', { type: 'button', class: 'pick', 'data-at': at, 'aria-pressed': String(picked), onclick: column.pick(row) },
        swatch, column.number ? text : name(text))
      : make('span', {}, swatch, column.number ? text : name(text));
    const classes = [column.number ? 'number' : '', text.length <= 24 ? 'keep' : '', picked ? 'picked' : ''].join(' ').trim();
    return make(first ? 'th' : 'td', { scope: first ? 'row' : null, class: classes || null }, inside);
  }

  function dot(colour) {
    const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
    for (const [key, value] of Object.entries({ class: 'dot', viewBox: '0 0 10 10', 'aria-hidden': 'true' })) svg.setAttribute(key, value);
    const square = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    for (const [key, value] of Object.entries({ width: 10, height: 10, rx: 2, fill: colour })) square.setAttribute(key, value);
    svg.append(square);
    return svg;
  }

  // Tab-separated, as spreadsheets take it. A cell that a spreadsheet would compute is quoted.
  function separated(columns, rows) {
    const plain = (value) => {
      const text = String(value ?? '').replace(/[\t\r\n]+/g, ' ');
      return typeof value !== 'number' && /^[=+\-@]/.test(text) ? `'${text}` : text;
    };
    const lines = rows.map((row) => columns.map((column) => plain(column.raw ? column.raw(row) : column.text(row))));
    return [columns.map((column) => plain(column.unit ? `${column.title} (${column.unit})` : column.title)), ...lines]
      .map((line) => line.join('\t')).join('\n');
  }

  return { table, separated };
})();
