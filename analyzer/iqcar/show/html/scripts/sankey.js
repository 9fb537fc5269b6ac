// iQC-Graph of what is chosen: sources on the left, the target on the right, links as wide as IF·DOR.
function paintSankey(rows, current, names) {
  const place = byId('sankey-picture');
  const { queries, stages } = page.people;
  const MOST = page.figures.nodes;
  const LEAST = 0.01; // of what was lost: thinner nodes are joined, their labels would lie on the links of others
  const target = queries[current.query];
  const { KEYS } = selection;
  const levels = [
    { title: 'source query', key: KEYS.source, name: names.sourceName, colour: names.sourceColour },
    { title: 'source stage', key: KEYS.sourceStage, name: names.sourceStageName, colour: names.sourceColour },
    {
      title: 'request on a host', key: (row) => `${KEYS.request(row)} ${KEYS.host(row)}`,
      name: (row) => `${page.requests[row.request].name} on ${names.hostName(row.host)}`, colour: (row) => names.resourceOf(row.request).colour,
    },
    { title: 'resource', key: KEYS.resource, name: (row) => names.resourceOf(row.request).name, colour: (row) => names.resourceOf(row.request).colour },
    { title: 'target stage', key: KEYS.stage, name: (row) => `${row.stage >= 0 && stages[row.stage].critical ? '◆ ' : ''}${names.stageName(row.stage)}`, colour: () => target.colour },
    { title: 'target', key: () => 'target', name: () => target.name, colour: () => target.colour },
  ];
  const whole = rows.reduce((sum, row) => sum + row.dor, 0);
  if (!(whole > 0)) {
    pictures.clear(place, 'Nothing was lost here.');
    byId('sankey-numbers').replaceChildren();
    return;
  }
  const nodes = [];
  const columns = levels.map((level, depth) => {
    const sums = new Map();
    rows.forEach((row) => {
      const key = level.key(row);
      const sum = sums.get(key) ?? { name: level.name(row), colour: level.colour(row), dor: 0, lost: 0, depth };
      sum.dor += row.dor;
      sum.lost += row.lost;
      sums.set(key, sum);
    });
    const order = [...sums.entries()].sort((a, b) => b[1].dor - a[1].dor);
    const at = new Map();
    const large = order.filter(([, sum]) => sum.dor >= LEAST * whole);
    // What no query can be blamed for is told apart however many queries there are.
    const isCause = (key) => key.startsWith('known-') || key === 'unattributed';
    const causes = large.filter(([key]) => isCause(key));
    const [kept, left] = fold(large.filter(([key]) => !isCause(key)), MOST);
    const rest = [...left, ...order.slice(large.length)];
    [...kept, ...causes].forEach(([key, sum]) => at.set(key, nodes.push(sum) - 1));
    if (rest.length) {
      const dor = rest.reduce((sum, [, one]) => sum + one.dor, 0);
      const lost = rest.reduce((sum, [, one]) => sum + one.lost, 0);
      const folded = nodes.push({ name: `${rest.length} more`, colour: page.othersColour, depth, dor, lost }) - 1;
      rest.forEach(([key]) => at.set(key, folded));
    }
    return at;
  });
  const links = new Map();
  rows.forEach((row) => levels.slice(0, -1).forEach((level, depth) => {
    const from = columns[depth].get(level.key(row));
    const to = columns[depth + 1].get(levels[depth + 1].key(row));
    const link = links.get(`${from} ${to}`) ?? { from, to, dor: 0, lost: 0 };
    link.dor += row.dor;
    link.lost += row.lost;
    links.set(`${from} ${to}`, link);
  }));
  const list = [...links.values()].filter((link) => link.dor > 0);
  const nameOf = (at) => pictures.safe(words.short(nodes[at].name, 60));
  const rgba = (colour) => `${colour}${Math.round(255 * page.figures.linkOpacity).toString(16)}`;
  const fullest = Math.max(...columns.map((column) => new Set(column.values()).size), 5);
  pictures.draw(place, 'iQC-Graph from source queries to the target; the table below it has the numbers.', () => ({
    traces: [{
      type: 'sankey',
      node: {
        label: nodes.map((node) => `${node.depth === levels.length - 1 ? '' : pictures.safe(words.short(node.name, 22))}  ${names.ofRun(node.lost).split(' of')[0]}`),
        color: nodes.map((node) => node.colour),
        customdata: nodes.map((node) => `<b>${pictures.safe(words.short(node.name, 80))}</b><br>${words.duration(node.lost)}, ${pictures.safe(names.ofRun(node.lost))}`),
      },
      link: {
        source: list.map((link) => link.from), target: list.map((link) => link.to), value: list.map((link) => link.dor),
        color: list.map((link) => rgba(nodes[link.from].colour)),
        customdata: list.map((link) => `${nameOf(link.from)} → ${nameOf(link.to)}<br>${words.duration(link.lost)}, ${pictures.safe(names.ofRun(link.lost))}`),
      },
    }],
    layout: {
      height: page.figures.px.frame + page.figures.px.node * fullest, margin: { l: 12, r: 12, t: 36, b: 24 },
      annotations: structuredClone(page.figures.headings),
    },
  }));
  numbers.table(byId('sankey-numbers'), 'Links of iQC-Graph', [
    { title: 'from', text: (link) => nodes[link.from].name },
    { title: 'to', text: (link) => nodes[link.to].name },
    { title: 'IF·DOR', number: true, text: (link) => words.digits(link.dor), raw: (link) => link.dor },
    { title: 'lost', unit: 'ms', number: true, text: (link, write) => write(link.lost), raw: (link) => link.lost },
  ], list.sort((a, b) => nodes[a.from].depth - nodes[b.from].depth || b.dor - a.dor), 'Nothing was lost here.');
}
