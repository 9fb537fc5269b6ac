// Explore a query, step by step: stages and resources, requests and hosts, source stages, sources.
function startExplore() {
  const chooser = byId('target');
  if (!chooser) return;
  const { queries, stages, hosts } = page.people;
  const { KEYS } = selection;
  const OWN = 1;
  const measures = { stages: checked('stages-measure'), hosts: checked('hosts-measure') };
  const byTarget = new Map(page.explore.targets.map((one) => [queries[one.query].id, one]));
  let rows = [];
  let current = null;

  const records = (columns) => (columns ? columns[Object.keys(columns)[0]].map((_, i) =>
    Object.fromEntries(Object.entries(columns).map(([key, column]) => [key, column[i]]))) : []);

  // Names of what a row is about.
  const stageName = (at) => (at < 0 ? 'other stages' : `stage ${stages[at].id}`);
  const hostName = (at) => (at === -2 ? 'other hosts' : at === -1 ? 'unknown host' : hosts[at]);
  const queryName = (at) => (at < 0 ? 'other queries' : queries[at].name);
  const sourceName = (row) => (row.kind === 0 ? queryName(row.source) : page.causes[KEYS.source(row)].name);
  const sourceStageName = (row) => (row.kind > OWN ? sourceName(row)
    : row.kind === OWN ? `${row.sourceStage < 0 ? 'other stages' : stageName(row.sourceStage)} within itself`
      : row.source < 0 && row.sourceStage < 0 ? 'stages of other queries' : `${stageName(row.sourceStage)} of ${queryName(row.source)}`);
  // A cause that is nobody reads as a name between quotation marks.
  const quoted = (row, nameOf) => name(row.kind > OWN ? `“${nameOf(row)}”` : nameOf(row));
  const sourceColour = (row) => (row.kind > 0 ? page.causes[causeOfRow(row)].colour : row.source < 0 ? page.othersColour : queries[row.source].colour);
  const resourceOf = (request) => page.resources.find((one) => one.key === page.requests[request].resource);

  const total = (list) => list.reduce((sum, row) => sum + row.lost, 0);

  // Rows that agree with what is chosen in some steps.
  function agreeing(list, steps) {
    const chosen = selection.get();
    const asked = steps.filter((step) => chosen[step] !== null);
    return list.filter((row) => asked.every((step) => KEYS[step](row) === chosen[step]));
  }

  function grouped(list, key) {
    const groups = new Map();
    for (const row of list) {
      const at = key(row);
      const group = groups.get(at) ?? { ...row, key: at, rows: [], lost: 0, dor: 0 };
      group.rows.push(row);
      group.lost += row.lost;
      group.dor += row.dor;
      groups.set(at, group);
    }
    return [...groups.values()].sort((a, b) => b.lost - a.lost);
  }

  function load(id) {
    const found = byTarget.get(id);
    if (found === current) return;
    current = found;
    rows = found ? records(found.rows) : [];
  }

  function paint() {
    const chosen = selection.get();
    if (!byTarget.has(chosen.target)) {
      if (chosen.target !== null) say('The query of that link is not on this page.');
      selection.show({ ...Object.fromEntries(selection.STEPS.map((step) => [step, null])), target: chooser.value }, false);
      return;
    }
    load(chosen.target);
    chooser.value = chosen.target;
    paintTarget();
    paintPath();
    paintStages();
    paintHosts();
    paintSourceStages();
    paintSources();
    paintSankey(agreeing(rows, ['stage', 'resource', 'request', 'host', 'sourceStage', 'source']), current, {
      stageName, hostName, sourceName, sourceStageName, sourceColour, resourceOf, ofRun,
    });
  }

  function paintTarget() {
    const query = queries[current.query];
    byId('target-facts').replaceChildren(name(query.name), query.said);
    const text = byId('target-text');
    text.hidden = !query.text;
    byId('target-text-whole').textContent = query.text ?? '';
  }

  // The path chosen so far; each part can be taken back.
  function paintPath() {
    const chosen = selection.get();
    const label = {
      stage: (value) => (value === 'other' ? 'other stages' : `stage ${value}`),
      resource: (value) => page.resources.find((one) => one.key === value)?.name ?? value,
      request: (value) => page.requests.find((one) => one.key === value)?.name ?? value,
      host: (value) => (value === 'other' ? 'other hosts' : `on ${value}`),
      sourceStage: () => {
        const row = rows.find((one) => KEYS.sourceStage(one) === chosen.sourceStage);
        return row ? sourceStageName(row) : chosen.sourceStage;
      },
      source: () => {
        const row = rows.find((one) => KEYS.source(one) === chosen.source);
        return `only ${row ? sourceName(row) : chosen.source}`;
      },
    };
    const parts = selection.STEPS.slice(1).filter((step) => chosen[step] !== null).map((step) =>
      make('li', {}, make('button', { type: 'button', class: 'chip', onclick: () => selection.choose({ [step]: chosen[step] }) },
        name(words.short(label[step](chosen[step]), 60)), make('span', { 'aria-hidden': 'true' }, ' ×'), make('span', { class: 'unseen' }, ' (take back)'))));
    const left = total(agreeing(rows, ['stage', 'resource', 'request', 'host', 'sourceStage', 'source']));
    byId('path').replaceChildren(...parts);
    byId('path-sum').textContent = parts.length
      ? `${words.duration(left)} of the ${words.duration(total(rows))} lost.`
      : 'Nothing chosen yet: click a bar, a cell or a row to narrow the next view.';
    byId('widen').hidden = !parts.length;
  }

  // Every share is of the run; of what was lost where the run is not known.
  const ofRun = (lost) => `${words.percent(Math.min(lost / (queries[current.query].ran || total(rows)), 1))} of its run`;

  function sentence(id, list, what) {
    const place = byId(id);
    if (!list.length || !(list[0].lost > 0)) {
      place.textContent = 'Nothing was lost here.';
      return;
    }
    place.replaceChildren('Most was lost ', ...what(list[0]), `: ${words.duration(list[0].lost)}, ${ofRun(list[0].lost)}.`);
  }

  function paintStages() {
    const mine = agreeing(rows, ['source']);
    const found = grouped(mine, KEYS.stage);
    const chosen = selection.get();
    const demands = records(current.demands);
    const waited = (group, resource) => demands.filter((one) => one.stage === group.stage && (resource === null || page.requests[one.request].resource === resource))
      .reduce((sum, one) => sum + one.wait, 0);
    const lostTo = (group, resource) => total(group.rows.filter((row) => KEYS.resource(row) === resource));
    const amount = (group, resource) => (measures.stages === 'lost' ? lostTo(group, resource) : waited(group, resource));
    const faint = (stage, resource) => (chosen.stage !== null && chosen.stage !== stage) || (chosen.resource !== null && chosen.resource !== resource);
    sentence('stages-said', found, (group) => [`in ${stageName(group.stage)}${critical(group) ? ', which is on the critical path' : ''}`]);
    const bars = found;
    // Names of stages are worth their room where they tell stages apart.
    const named = new Set(bars.map((group) => stages[group.stage]?.name)).size > 1;
    const called = (group) => (named && stages[group.stage]?.name ? ` ${words.short(stages[group.stage].name, 24)}` : '');
    const labels = bars.map((group) => `${critical(group) ? '◆ ' : ''}${stageName(group.stage)}${called(group)}`);
    const label = `Time ${measures.stages === 'lost' ? 'lost' : 'waited'} by stage and resource; the table beside it has the numbers.`;
    if (!found.length) pictures.clear(byId('stages-picture'), 'Nothing was lost here.');
    else {
      pictures.draw(byId('stages-picture'), label, () => ({
        traces: page.resources.map((resource) => ({
          type: 'bar', orientation: 'h', name: resource.name, y: bars.map((_, i) => i), x: bars.map((group) => amount(group, resource.key) / 1000),
          marker: { color: resource.colour, opacity: bars.map((group) => (faint(group.key, resource.key) ? 0.3 : 1)) },
          customdata: bars.map((group) => [group.key, resource.key]), hoverinfo: 'text',
          hovertext: bars.map((group, i) => `<b>${pictures.safe(labels[i])}</b><br>`
            + `${measures.stages === 'lost' ? 'lost' : 'waited'} ${words.duration(amount(group, resource.key))} for ${resource.name}`),
        })).filter((trace) => trace.x.some((value) => value > 0)),
        layout: {
          barmode: 'stack', height: pictures.rowsHigh(bars.length) + 30, bargap: 0.3, showlegend: true,
          legend: { orientation: 'h', y: 1, yanchor: 'bottom', x: 0, traceorder: 'normal' },
          xaxis: { title: { text: measures.stages === 'lost' ? 's of elapsed time lost' : 's of task time waited' }, rangemode: 'tozero' },
          yaxis: pictures.names(labels, true),
        },
      }), (point) => selection.choose({ stage: point.customdata[0], resource: point.customdata[1] }));
    }
    numbers.table(byId('stages-numbers'), `Time ${measures.stages === 'lost' ? 'lost' : 'waited'} by stage and resource`, [
      { title: 'stage', text: (group) => `${critical(group) ? '◆ ' : ''}${stageName(group.stage)}`, pick: (group) => () => selection.choose({ stage: group.key, resource: null }),
        picked: (group) => chosen.stage === group.key },
      ...page.resources.filter((resource) => found.some((group) => amount(group, resource.key) > 0)).map((resource) => ({
        title: resource.name, unit: 'ms', number: true,
        text: (group, write) => (amount(group, resource.key) > 0 ? write(amount(group, resource.key)) : ''),
        raw: (group) => amount(group, resource.key),
        pick: (group) => (lostTo(group, resource.key) > 0 ? () => selection.choose({ stage: group.key, resource: resource.key }) : null),
        picked: (group) => chosen.stage === group.key && chosen.resource === resource.key,
      })),
      { title: 'lost', unit: 'ms', number: true, text: (group, write) => write(group.lost), raw: (group) => group.lost },
      { title: 'waited', unit: 'ms', number: true, text: (group, write) => write(waited(group, null)), raw: (group) => waited(group, null) },
    ], found, 'Nothing was lost here.');
  }

  const critical = (group) => group.stage >= 0 && stages[group.stage].critical;

  function paintHosts() {
    const chosen = selection.get();
    const mine = agreeing(rows, ['stage', 'resource', 'source']);
    const waits = agreeing(records(current.demands), ['stage', 'resource']);
    const cells = new Map();
    const cell = (row) => {
      const key = `${row.request} ${row.host}`;
      if (!cells.has(key)) cells.set(key, { request: row.request, host: row.host, lost: 0, ratp: 0, wait: 0, tasks: 0, slowed: 0, evidence: Infinity });
      return cells.get(key);
    };
    mine.forEach((row) => { cell(row).lost += row.lost; });
    waits.forEach((one) => {
      const at = cell(one);
      at.ratp += one.ratp;
      at.wait += one.wait;
      at.tasks += one.tasks;
      at.slowed += one.slowdown * one.wait;
      at.evidence = Math.min(at.evidence, one.evidence);
    });
    const list = [...cells.values()].sort((a, b) => b.lost - a.lost || b.wait - a.wait);
    sentence('hosts-said', list, (one) => [`waiting for ${page.requests[one.request].name} on `, name(hostName(one.host))]);
    const requests = [...new Set(list.map((one) => one.request))].sort((a, b) => a - b);
    const columns = [...new Set(list.map((one) => one.host))].sort((a, b) => (a < 0) - (b < 0) || hostName(a).localeCompare(hostName(b), 'en', { numeric: true }));
    const amount = (one) => (measures.hosts === 'lost' ? one.lost : measures.hosts === 'ratp' ? one.ratp : one.wait);
    const written = (one) => (amount(one) <= 0 ? '' : measures.hosts === 'ratp' ? ratp(one) : words.duration(amount(one)));
    const at = (request, host) => cells.get(`${request} ${host}`);
    const keysOf = (one) => ({ request: page.requests[one.request].key, host: KEYS.host(one) });
    const picked = (request, host) => chosen.request === page.requests[request].key && chosen.host === KEYS.host({ host });
    if (!list.length) pictures.clear(byId('hosts-picture'), 'Nothing was waited for here.');
    else {
      const rowNames = requests.map((request) => `${resourceOf(request).name}: ${page.requests[request].name}`);
      // RATP of slots and of bytes have different units: its colours compare the hosts of one row.
      // What was joined is no one's: its sum must not make the others pale.
      const lostAt = (host) => requests.some((request) => at(request, host) && amount(at(request, host)) > 0);
      const single = columns.filter((host) => host !== -2);
      const apart = single.some(lostAt) ? single : columns;
      const most = requests.map((request) => Math.max(...apart.map((host) => (at(request, host) ? amount(at(request, host)) : 0)), 0));
      const whole = Math.max(...most);
      const shade = (request, host, i) => {
        const one = at(request, host);
        if (!one) return null;
        const scale = measures.hosts === 'ratp' ? most[i] : whole;
        return scale > 0 ? Math.min(amount(one) / scale, 1) : 0;
      };
      pictures.asWideAs(byId('hosts-picture'), columns.length);
      pictures.draw(byId('hosts-picture'), 'Heatmap of requests by host; the table beside it has the numbers.', () => ({
        traces: [{
          type: 'heatmap', z: requests.map((request, i) => columns.map((host) => shade(request, host, i))), zmin: 0, zmax: 1,
          text: requests.map((request) => columns.map((host) => (at(request, host) ? written(at(request, host)) : ''))), texttemplate: pictures.roomFor(byId('hosts-picture'), columns.length) ? '%{text}' : '',
          hovertext: requests.map((request, i) => columns.map((host) => told(at(request, host), rowNames[i], host))),
        }],
        layout: {
          height: 96 + (page.figures.px.row + 8) * requests.length, showlegend: false, margin: { t: 8 },
          xaxis: pictures.names(columns.map((host) => words.short(hostName(host), 22))), yaxis: pictures.names(rowNames, true),
          shapes: requests.flatMap((request, y) => columns.flatMap((host, x) => (picked(request, host)
            ? [{ type: 'rect', x0: x - 0.49, x1: x + 0.49, y0: y - 0.48, y1: y + 0.48, line: { width: 3 } }] : []))),
        },
      }), (point) => {
        const one = at(requests[point.pointNumber[0]], columns[point.pointNumber[1]]);
        if (one) selection.choose(keysOf(one));
      });
    }
    numbers.table(byId('hosts-numbers'), 'Requests by host', [
      { title: 'waiting for', text: (one) => page.requests[one.request].name, colour: (one) => resourceOf(one.request).colour,
        pick: (one) => () => selection.choose(keysOf(one)), picked: (one) => picked(one.request, one.host) },
      { title: 'host', text: (one) => words.short(hostName(one.host), 24) },
      { title: 'lost', unit: 'ms', number: true, text: (one, write) => write(one.lost), raw: (one) => one.lost },
      { title: 'waited', unit: 'ms', number: true, text: (one, write) => write(one.wait), raw: (one) => one.wait },
      { title: 'per unit', unit: 'ms per slot, core or byte', number: true, text: ratp, raw: (one) => one.ratp },
      { title: 'slowdown', number: true, text: (one) => (one.wait > 0 ? words.digits(one.slowed / one.wait) : ''), raw: (one) => (one.wait > 0 ? one.slowed / one.wait : '') },
      { title: 'evidence', text: (one) => page.evidences[one.evidence] ?? '' },
    ], list, 'Nothing was waited for here.');
  }

  // Bytes are shown by the MB: per byte it is a number with many zeros.
  const PER_UNIT = { slots: [1, 'ms/slot'], executors: [1, 'ms/slot'], cpu: [1, 'ms/core'], memory: [1e6, 'ms/MB'], network: [1e6, 'ms/MB'], io: [1e6, 'ms/MB'] };
  function ratp(one) {
    const [per, unit] = PER_UNIT[resourceOf(one.request).key];
    return one.ratp > 0 ? `${words.digits(one.ratp * per)} ${unit}` : '';
  }

  function told(one, row, host) {
    const where = `<b>${row}</b> on ${pictures.safe(words.short(hostName(host), 60))}`;
    return one
      ? `${where}<br>lost ${words.duration(one.lost)}, waited ${words.duration(one.wait)} of task time<br>${ratp(one) || '0'} of waiting per unit of work`
      : `${where}<br>nothing was waited for there`;
  }

  function paintSourceStages() {
    const mine = agreeing(rows, ['stage', 'resource', 'request', 'host', 'source']);
    const found = grouped(mine, KEYS.sourceStage);
    sentence('source-stages-said', found, (group) => ['to ', quoted(group, sourceStageName)]);
    bars('source-stages', found, sourceStageName, 'sourceStage', 'Blamed source stages', 'source stage');
  }

  function paintSources() {
    const mine = agreeing(rows, ['stage', 'resource', 'request', 'host', 'sourceStage']);
    const found = grouped(mine, KEYS.source);
    sentence('sources-said', found, (group) => ['to ', quoted(group, sourceName)]);
    bars('sources', found, sourceName, 'source', 'Source queries', 'source');
    const go = byId('sources-next');
    const chosen = found.find((group) => group.key === selection.get().source);
    const next = chosen && chosen.kind === 0 && byTarget.has(chosen.key) ? chosen : null;
    go.hidden = !next;
    if (!next) return;
    go.replaceChildren(make('button', { type: 'button', onclick: () => selection.choose({ target: next.key }) },
      'Explore what held up ', name(words.short(queryName(next.source), 40))));
  }

  function bars(id, groups, nameOf, step, caption, title) {
    const found = groups.filter((group) => group.lost > 0 || group.dor > 0);
    const chosen = selection.get()[step];
    const [kept, rest] = fold(found.filter((group) => group.lost > 0), page.figures.blamed);
    const shown = rest.length ? [...kept, { key: null, lost: total(rest) }] : kept;
    const called = (group) => (group.key === null ? `${rest.length} more` : nameOf(group));
    if (!shown.length) pictures.clear(byId(`${id}-picture`), 'Nothing was lost here.');
    else {
      pictures.draw(byId(`${id}-picture`), `${caption}; the table beside it has the numbers.`, () => ({
        traces: [{
          type: 'bar', orientation: 'h', y: shown.map((_, i) => i), x: shown.map((group) => group.lost / 1000), customdata: shown.map((group) => group.key),
          marker: { color: shown.map((group) => (group.key === null ? page.othersColour : sourceColour(group))), opacity: shown.map((group) => (chosen !== null && chosen !== group.key ? 0.3 : 1)) },
          text: shown.map((group) => words.duration(group.lost)), textposition: 'auto', cliponaxis: false, hoverinfo: 'text',
          hovertext: shown.map((group) => `<b>${pictures.safe(words.short(called(group), 60))}</b><br>`
            + `${words.duration(group.lost)}, ${ofRun(group.lost)}`),
        }],
        layout: {
          height: pictures.rowsHigh(shown.length), bargap: 0.3, showlegend: false,
          xaxis: { title: { text: 's of elapsed time lost' }, rangemode: 'tozero' },
          yaxis: pictures.names(shown.map((group) => words.short(called(group), 30)), true),
        },
      }), (point) => point.customdata !== null && selection.choose({ [step]: point.customdata }));
    }
    numbers.table(byId(`${id}-numbers`), caption, [
      { title, text: (group) => words.short(nameOf(group), 80), colour: sourceColour,
        pick: (group) => () => selection.choose({ [step]: group.key }), picked: (group) => chosen === group.key },
      { title: 'lost', unit: 'ms', number: true, text: (group, write) => write(group.lost), raw: (group) => group.lost },
      { title: 'of its run', number: true, text: (group) => ofRun(group.lost).split(' of')[0], raw: (group) => group.lost / (queries[current.query].ran || total(rows)) },
    ], found, 'Nothing was lost here.');
  }

  chooser.addEventListener('change', () => selection.choose({ target: chooser.value }));
  document.querySelectorAll('input[name="stages-measure"]').forEach((input) => input.addEventListener('change', () => { measures.stages = input.value; paintStages(); }));
  document.querySelectorAll('input[name="hosts-measure"]').forEach((input) => input.addEventListener('change', () => { measures.hosts = input.value; paintHosts(); }));
  byId('widen').addEventListener('click', () => {
    const chosen = Object.entries(selection.get()).filter(([step, value]) => step !== 'target' && value !== null);
    selection.choose(Object.fromEntries(chosen));
  });
  byId('link').addEventListener('click', () => {
    history.replaceState(null, '', selection.fragment());
    copy(location.href, 'The link', byId('link'));
  });
  selection.onChange(paint);
  if (selection.restore()) requestAnimationFrame(() => framed || selection.reveal()); // a notebook keeps its focus
  else selection.show({ target: chooser.value }, false);
}
