// The elements around the pictures: switches, legend, tooltip, and the table that says the same.

const MOST_TABLE_ROWS = 300;
const MOST_LEGEND = 12;
let timelines = 0;

function build(element, model, first) {
  timelines += 1;
  const group = `iqt-mode-${timelines}`;
  const mode = (value, text) => {
    const input = el('input', { type: 'radio', name: group, value });
    input.checked = value === first;
    return [input, el('label', { class: 'iqt-choice' }, input, ` ${text}`)];
  };
  const [byQuery, byQueryLabel] = mode('query', 'by query');
  const [byWait, byWaitLabel] = mode('wait', 'by what they waited for most');
  const [byPhase, byPhaseLabel] = mode('phase', 'by phase');
  const hasPhases = Boolean(model.phases) && layLanes(model).exact;
  const button = (act, text, label) => el('button', { type: 'button', 'data-act': act, 'aria-label': label, title: label }, text);
  const buttons = [button('in', '+', 'Zoom in'), button('out', '−', 'Zoom out'), button('all', 'whole time', 'Show the whole time')];
  const parts = {
    modes: hasPhases ? [byQuery, byWait, byPhase] : [byQuery, byWait], buttons,
    top: el('canvas', { role: 'img', class: 'iqt-top' }),
    lanes: el('canvas', { role: 'img', class: 'iqt-lanes', 'aria-label': lanesLabel(model) }),
    spacer: el('div', { class: 'iqt-spacer' }),
    legend: el('ul', { class: 'iqt-legend', 'aria-label': 'Colours of tasks' }),
    tip: el('div', { class: 'iqt-tip', role: 'tooltip' }),
    said: el('p', { class: 'iqt-said', 'aria-live': 'polite' }),
    body: el('tbody'), note: el('p', { class: 'iqt-note' }),
    copy: el('button', { type: 'button' }, 'Copy the table'),
  };
  parts.tip.hidden = true;
  parts.scroll = el('div', { class: 'iqt-scroll' }, parts.lanes, parts.spacer);
  parts.area = el('div', { class: 'iqt-area', tabindex: '0', role: 'group', 'aria-label': 'Timeline. Arrow keys move, plus and minus zoom, 0 shows everything.' },
    el('div', { class: 'iqt-upper' }, parts.top), parts.scroll);
  const head = el('tr', {}, ...['what', 'start', 'ran', 'lost', 'to others', 'note'].map((text) => el('th', { scope: 'col' }, text)));
  parts.table = el('table', { class: 'iqt-table' }, el('thead', {}, head), parts.body);
  const recorder = model.recorded ? '`iqcar sample`' : 'the iqcar plugin or `iqcar sample`';
  const unsampled = model.sampled ? '' : ` What hosts did (CPU, disk, network) was not recorded: ${recorder} records it.`;
  const leftOut = (model.gaps ?? []).map((gap) => gap.ms);
  const times = leftOut.length > 4 ? `${leftOut.length} times of up to ${duration(Math.max(...leftOut))}` : leftOut.map(duration).join(', ');
  const folded = leftOut.length ? ` Left out where the axis is broken, as no query ran: ${times}.` : '';
  element.replaceChildren(
    el('div', { class: 'iqt-bar' }, el('span', { class: 'iqt-switch', role: 'radiogroup', 'aria-label': 'Colour tasks' }, 'Colour tasks ', byQueryLabel, byWaitLabel, ...(hasPhases ? [byPhaseLabel] : [])),
      el('span', { class: 'iqt-buttons' }, ...buttons)),
    parts.legend, parts.area, parts.said,
    el('p', { class: 'iqt-hint' }, `Times are after ${utc(model.origin_ms)}, the start of this input.${folded} Drag to move; click, then turn the wheel to zoom; keys: arrows, +, −, 0. Click a bar to choose its query.${unsampled}`),
    el('details', { class: 'iqt-details' }, el('summary', {}, 'Queries and stages as a table'), parts.note, parts.copy, el('div', { class: 'iqt-wide', tabindex: '0', role: 'region', 'aria-label': 'Queries and stages' }, parts.table)),
    parts.tip,
  );
  return parts;
}

function lanesLabel(model) {
  const count = model.tasks ? model.tasks.count : model.binned_tasks;
  const by = model.lanes.by === 'executor' ? 'executor' : 'host';
  return `${plural(count, 'task')} in ${plural(model.lanes.name.length, `lane`)}, one per ${by}${model.sampled ? ', with what their hosts did' : ''}.`;
}

function fillLegend(parts, model, state) {
  const item = (colour, text, kind = '') => {
    const swatch = el('span', { class: `iqt-swatch ${kind}`, 'aria-hidden': 'true' });
    if (colour) swatch.style.backgroundColor = colour;
    return el('li', {}, swatch, el('bdi', {}, text));
  };
  if (state.mode === 'wait') {
    parts.legend.replaceChildren(...model.main_waits.map((one) => item(one.colour, one.name)));
    return;
  }
  if (state.mode === 'phase') {
    parts.legend.replaceChildren(...model.phases.map((one) => item(one.colour, one.name)), item(model.others_colour, 'no profile recorded'));
    return;
  }
  const size = model.tasks ? (i) => model.tasks.time[i] : (i) => model.queries.end[i] - model.queries.start[i];
  // Runs of one recurring query share a colour, and a line of the legend.
  const kinds = new Map();
  model.queries.id.forEach((_, i) => {
    const key = model.queries.colour[i];
    const kind = kinds.get(key) ?? { first: i, runs: 0, size: 0, names: new Set() };
    kind.runs += 1;
    kind.names.add(model.queries.name[i]);
    kind.size += size(i);
    if (i === state.selected) kind.size = Infinity;
    kinds.set(key, kind);
  });
  const order = Array.from(kinds.values()).sort((a, b) => b.size - a.size).slice(0, MOST_LEGEND);
  const several = ({ runs, names }) => (runs === 1 ? '' : names.size === 1 ? ` (${runs} runs)` : ` and ${runs - 1} more`);
  const cut = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
  const called = order.map((kind) => `${cut(model.queries.name[kind.first])}${several(kind)}`);
  const apart = (text, first) => (called.filter((one) => one === text).length > 1 ? `${text} ${model.queries.id[first].split('/').pop()}` : text);
  const items = order.map(({ first }, i) => item(model.queries.colour[first], apart(called[i], first)));
  const rest = model.queries.count + model.folded_queries - order.reduce((sum, kind) => sum + kind.runs, 0);
  if (rest > 0) items.push(item(null, plural(rest, 'more query')));
  parts.legend.replaceChildren(...items);
}

// Queries that lost most come first; the selected one comes before all, with its stages.
function fillTable(parts, model, state, choose) {
  const { queries, stages } = model;
  const order = queries.id.map((_, i) => i).sort((a, b) => queries.lost[b] - queries.lost[a]);
  const shown = order.slice(0, MOST_TABLE_ROWS);
  if (state.selected >= 0) {
    const at = shown.indexOf(state.selected);
    if (at >= 0) shown.splice(at, 1);
    shown.unshift(state.selected);
  }
  const rows = [];
  const cells = (what, start, ran, lost, others, last) => [
    el('td', {}, ...what), ...[told(model, start, 100), duration(ran * model.tick_ms), duration(lost), others].map((text) => el('td', { class: 'iqt-number' }, text)), el('td', {}, ...last)];
  for (const i of shown) {
    const choice = el('button', { type: 'button', 'aria-pressed': String(i === state.selected) }, 'show');
    choice.setAttribute('aria-label', `Show ${queries.name[i]}`);
    choice.addEventListener('click', () => choose(i));
    rows.push(el('tr', { class: i === state.selected ? 'iqt-chosen' : '' }, ...cells(
      [el('bdi', {}, queries.name[i]), ' ', el('small', {}, queries.id[i])], queries.start[i], queries.end[i] - queries.start[i], queries.lost[i], duration(queries.lostToOthers[i]), [choice])));
    if (i !== state.selected) continue;
    for (let s = 0; s < stages.query.length; s += 1) {
      if (stages.query[s] !== i) continue;
      const name = `stage ${stages.number[s]}${stages.critical[s] ? ' (critical path)' : ''} ${stages.name[s]}`;
      rows.push(el('tr', { class: 'iqt-stage' }, ...cells([el('bdi', {}, name)], stages.start[s], stages.end[s] - stages.start[s], stages.lost[s], '', [])));
    }
  }
  const notes = [];
  if (order.length > MOST_TABLE_ROWS || model.folded_queries) notes.push(`${plural(order.length + model.folded_queries - shown.length, 'more query')} ran.`);
  if (model.critical_path) notes.push('Only stages on the critical path are shown.');
  if (stages.folded) notes.push(`${plural(stages.folded, 'short stage')} left out.`);
  notes.push('Stages are listed for the query that is chosen.');
  parts.note.textContent = notes.join(' ');
  parts.body.replaceChildren(...rows);
}

async function copyTable(parts) {
  const lines = Array.from(parts.table.rows, (row) => Array.from(row.cells, (cell) => cell.textContent.trim()).slice(0, 5).join('\t'));
  const text = lines.join('\n');
  try {
    await navigator.clipboard.writeText(text);
    parts.said.textContent = 'Table copied.';
  } catch {
    // A page from a disk may not be allowed to: select it instead, so that a key press copies it.
    getSelection().selectAllChildren(parts.table);
    parts.said.textContent = 'The table is selected: press Ctrl+C to copy it.';
  }
}
