// Who hurts whom: sources in rows, those who lost time in columns, by resource.
function startMatrix() {
  const place = byId('matrix-picture');
  if (!place) return;
  const { sources, targets, cells } = page.matrix; // runs of a recurring query are one
  const { queries } = page.people;
  const [NARROW_PX, NAMES_PX, LETTER_PX] = [700, 170, 7.4]; // a picture in a narrow window, names of rows
  const LIMITED = page.resources.length; // the last number of a cell: what CPU limits cost
  const CPU = page.resources.findIndex((one) => one.key === 'cpu');
  const choice = { resource: checked('matrix-resource'), measure: checked('matrix-measure') };

  // Rows: sources, then the folded ones, then the causes that are no other query.
  const rowKeys = [...sources.map((_, i) => `q${i}`)];
  if (cells.source.some((at) => at === -2)) rowKeys.push('q-2');
  const keyOf = (i, resource) => (cells.kind[i] === 0 ? `q${cells.source[i]}` : causeKey(cells.kind[i], page.resources[resource]?.key, resource === LIMITED));
  const told = new Set(cells.lost.flatMap((lost, i) => lost.flatMap((ms, resource) => (ms > 0 ? [keyOf(i, resource)] : []))));
  rowKeys.push(...Object.keys(page.causes).filter((key) => told.has(key)));
  const columnKeys = targets.map((_, i) => i);
  if (cells.target.some((at) => at === -2)) columnKeys.push(-2);
  const rowNames = [...sources];
  rowKeys.slice(sources.length).forEach((key) => rowNames.push(key === 'q-2' ? 'other queries' : page.causes[key].name));
  const columnNames = [...targets];
  if (columnKeys.includes(-2)) columnNames.push('other queries');

  function sums() {
    const grid = rowKeys.map(() => columnKeys.map(() => 0));
    const at = page.resources.findIndex((one) => one.key === choice.resource);
    cells.lost.forEach((lost, i) => lost.forEach((ms, resource) => {
      if (ms > 0 && (at < 0 || at === (resource === LIMITED ? CPU : resource))) grid[rowKeys.indexOf(keyOf(i, resource))][columnKeys.indexOf(cells.target[i])] += ms;
    }));
    return grid;
  }

  const ran = (column) => (columnKeys[column] < 0 ? null : page.matrix.ran[columnKeys[column]]);
  const shown = (value, column) => (choice.measure === 'lost' ? value : ran(column) ? Math.min(value / ran(column), 1) : null);
  const written = (value) => (value === null ? '' : value <= 0 ? '' : choice.measure === 'lost' ? words.duration(value) : words.percent(value));

  function pick(row, column) {
    // The run that lost most there, and the run that it lost that to.
    const at = cells.lost.findIndex((lost, i) => cells.target[i] === columnKeys[column]
      && lost.some((ms, resource) => ms > 0 && keyOf(i, resource) === rowKeys[row]));
    if (columnKeys[column] < 0 || at < 0) return null;
    const target = queries[cells.to[at]].id;
    if (!page.explore.targets.some((one) => queries[one.query].id === target)) return null;
    const key = rowKeys[row];
    const source = key.startsWith('q') ? (key === 'q-2' ? 'other' : queries[cells.from[at]].id) : key;
    return () => {
      selection.choose({ target });
      if (selection.get().source !== source) selection.choose({ source });
      byId('explore').scrollIntoView();
      byId('explore-title').focus({ preventScroll: true });
    };
  }

  function paint() {
    const grid = sums();
    const values = grid.map((line) => line.map((value, column) => shown(value, column)));
    // What was joined is no one's: its sum must not make the others pale.
    const apart = values.filter((_, row) => rowKeys[row] !== 'q-2').map((line) => line.filter((_, column) => columnKeys[column] !== -2));
    const told = Math.max(...apart.flat().map((value) => value ?? 0), 0);
    const most = told > 0 ? told : Math.max(...values.flat().map((value) => value ?? 0), 0);
    const what = choice.resource === 'all' ? '' : ` to ${page.resources.find((one) => one.key === choice.resource).name}`;
    if (!(most > 0)) {
      pictures.clear(place, `No query lost time${what} that could be measured.`);
    } else {
      const hover = grid.map((line, row) => line.map((value, column) => {
        const of = ran(column) ? `, ${words.percent(Math.min(value / ran(column), 1))} of its run` : '';
        const who = pictures.safe(columnNames[column]);
        const to = pictures.safe(rowNames[row]);
        return value > 0 ? `<b>${who}</b><br>lost ${words.duration(value)}${of}<br>to ${to}` : `${who}<br>lost nothing to ${to}`;
      }));
      const long = columnNames.some((one) => one.length * columnNames.length > (Math.max(place.clientWidth, NARROW_PX) - NAMES_PX) / LETTER_PX);
      pictures.asWideAs(place, columnKeys.length);
      pictures.draw(place, `Matrix of who lost time${what} to whom; the table below it has the numbers.`, () => ({
        traces: [{
          type: 'heatmap', z: values, zmin: 0, zmax: most, text: values.map((line) => line.map(written)), hovertext: hover,
          texttemplate: pictures.roomFor(place, columnKeys.length) ? '%{text}' : '',
        }],
        layout: {
          height: (long ? 170 : 110) + page.figures.px.row * Math.max(rowKeys.length, 5), margin: { t: 12, r: long ? 110 : 16 },
          xaxis: { ...pictures.names(columnNames), title: { text: 'who lost the time' }, tickangle: long ? 30 : 0, ticklabeloverflow: 'allow' },
          yaxis: { ...pictures.names(rowNames, true), title: { text: 'who was in the way' } },
        },
      }), (point) => pick(point.pointNumber[0], point.pointNumber[1])?.());
    }
    const rows = [];
    grid.forEach((line, row) => line.forEach((value, column) => value > 0 && rows.push({ row, column, value })));
    rows.sort((a, b) => b.value - a.value);
    numbers.table(byId('matrix-numbers'), `Who lost time${what} to whom`, [
      { title: 'who lost the time', text: (one) => columnNames[one.column], pick: (one) => pick(one.row, one.column) },
      { title: 'who was in the way', text: (one) => rowNames[one.row] },
      { title: 'lost', unit: 'ms', number: true, text: (one, write) => write(one.value), raw: (one) => one.value },
      { title: 'of its run', number: true, text: (one) => (ran(one.column) ? words.percent(Math.min(one.value / ran(one.column), 1)) : ''),
        raw: (one) => (ran(one.column) ? one.value / ran(one.column) : '') },
    ], rows, `No query lost time${what} that could be measured.`);
  }

  document.querySelectorAll('input[name="matrix-resource"], input[name="matrix-measure"]').forEach((input) =>
    input.addEventListener('change', () => {
      choice[input.name.split('-')[1]] = input.value;
      paint();
    }));
  paint();
}
