// The lower part: a lane per executor (or host), its tasks, and what its host did meanwhile.

const HEADER = 20;
const STRIP = 20;
const SUMMED_LANE = 15;
const LANES_PX = 460;
const MOST_EXACT_PX = 1600;
const LEAST_ROW_PX = 4;

// Lanes of one host together; a row per slot where there is room, else one row per lane.
function layLanes(model) {
  const { lanes } = model;
  const slots = lanes.slots.reduce((sum, n) => sum + n, 0);
  const exact = model.tasks !== null && slots * LEAST_ROW_PX <= MOST_EXACT_PX;
  const rowPx = exact ? Math.max(LEAST_ROW_PX, Math.min(15, Math.floor(LANES_PX / Math.max(slots, 1)))) : SUMMED_LANE;
  const rows = [];
  let y = 0;
  lanes.name.forEach((name, lane) => {
    const host = lanes.host[lane];
    if (lane === 0 || host !== lanes.host[lane - 1]) {
      rows.push({ kind: 'host', host, y, height: HEADER });
      y += HEADER;
    }
    const height = exact ? lanes.slots[lane] * rowPx : rowPx;
    rows.push({ kind: 'lane', lane, y, height, rowPx });
    y += height + 3;
    if (lane + 1 < lanes.name.length && lanes.host[lane + 1] === host) return;
    for (const strip of model.hosts.get(host)?.strips ?? []) {
      if (strip.key === 'slots' && exact) continue;
      rows.push({ kind: 'strip', host, strip, y, height: STRIP });
      y += STRIP + 3;
    }
    if (model.sampled && host && !model.hosts.get(host)?.sampled) {
      rows.push({ kind: 'gap', host, y, height: STRIP });
      y += STRIP + 3;
    }
  });
  return { rows, height: y + 4, exact };
}

function drawLanes(ctx, view, model, state, look, scroll) {
  let drawn = 0;
  const run = state.selected >= 0 ? bar(view, model.queries.start[state.selected], model.queries.end[state.selected]) : null;
  for (const row of state.lanes.rows) {
    const y = row.y - scroll;
    if (y + row.height < 0 || y > view.height) continue;
    if (row.kind === 'host') {
      ctx.fillStyle = look.ink;
      ctx.font = look.strong;
      ctx.textBaseline = 'middle';
      ctx.fillText(fitted(ctx, row.host || 'unknown host', view.width - 20), 4, y + HEADER / 2 + 2);
    } else if (row.kind === 'lane') {
      if (row.height >= 9 && model.lanes.by === 'executor') gutter(ctx, view, look, y + Math.min(row.height, 15) / 2, model.lanes.name[row.lane]);
      ctx.fillStyle = look.rail;
      ctx.fillRect(view.left, y, view.room, row.height);
      clip(ctx, view, () => {
        if (run) {
          ctx.fillStyle = look.wash;
          ctx.fillRect(run[0], y, run[1], row.height);
        }
        drawn += drawLane(ctx, view, model, state, row, y);
      });
    } else if (row.kind === 'strip') {
      drawStrip(ctx, view, model, row, y, look);
    } else {
      ctx.fillStyle = look.missing;
      ctx.fillRect(view.left, y, view.room, row.height);
      gutter(ctx, view, look, y + row.height / 2, 'host: not recorded', true);
    }
  }
  return drawn;
}

function drawLane(ctx, view, model, state, row, y) {
  if (model.bins) return drawBins(ctx, view, model, state, row, y);
  if (state.lanes.exact) return drawTasks(ctx, view, model, state, row, y);
  return drawSummed(ctx, view, model, state, row, y);
}

function colourOf(model, state, query, wait) {
  if (state.mode === 'wait') return model.main_waits[wait].colour;
  return model.queries.colour[query] ?? model.others_colour;
}

// Tasks of other queries step back, but not where colours say what was waited for.
function strength(state, query) {
  return state.mode === 'wait' || state.selected < 0 || query === state.selected ? 1 : 0.4;
}

// Telling a canvas the colour it has already is most of the cost of drawing a small bar.
function painter(ctx) {
  let [colour, alpha] = [null, null];
  return {
    as(newColour, newAlpha) {
      if (newColour !== colour) { ctx.fillStyle = newColour; colour = newColour; }
      if (newAlpha !== alpha) { ctx.globalAlpha = newAlpha; alpha = newAlpha; }
    },
  };
}

// Tasks wider than a pixel are drawn; of those that share a pixel the longest is.
function drawTasks(ctx, view, model, state, row, y) {
  const { tasks } = model;
  const scale = view.room / (view.to - view.from);
  const paint = painter(ctx);
  let drawn = 0;
  for (const segment of state.segments.get(row.lane) ?? []) {
    const top = y + segment.row * row.rowPx;
    const high = row.rowPx > 6 ? row.rowPx - 1.5 : row.rowPx - 0.5;
    let pixel = -1;
    let longest = -1;
    const flush = () => {
      if (longest < 0) return;
      paint.as(colourOf(model, state, tasks.query[longest], tasks.wait[longest]), strength(state, tasks.query[longest]));
      ctx.fillRect(pixel, top, 1, high);
      drawn += 1;
      longest = -1;
    };
    for (let i = firstAfter(tasks, segment, view.from); i < segment.end && tasks.launch[i] < view.to; i += 1) {
      const x = view.left + (tasks.launch[i] - view.from) * scale;
      const width = (tasks.end[i] - tasks.launch[i]) * scale;
      if (width >= 1) {
        flush();
        pixel = -1;
        paint.as(colourOf(model, state, tasks.query[i], tasks.wait[i]), strength(state, tasks.query[i]));
        const wide = Math.max(width - (width > 4 ? 0.7 : 0), 1);
        if (state.mode === 'phase') drawPhases(ctx, paint, view, model, i, top, high, wide);
        else ctx.fillRect(x, top, wide, high);
        drawn += 1;
      } else {
        const at = Math.floor(x);
        if (at !== pixel) { flush(); pixel = at; }
        if (longest < 0 || tasks.end[i] - tasks.launch[i] > tasks.end[longest] - tasks.launch[longest]) longest = i;
      }
    }
    flush();
  }
  ctx.globalAlpha = 1;
  return drawn;
}

// A task as its phases, one after another; without a profile it is pale.
function drawPhases(ctx, paint, view, model, i, top, high, wide) {
  const { tasks } = model;
  const begin = view.x(tasks.launch[i]);
  if (tasks.firstPhase[i] === tasks.firstPhase[i + 1]) {
    paint.as(model.others_colour, 0.25);
    ctx.fillRect(begin, top, wide, high);
    return;
  }
  for (let k = tasks.firstPhase[i]; k < tasks.firstPhase[i + 1]; k += 1) {
    const until = k + 1 < tasks.firstPhase[i + 1] ? view.x(tasks.phaseStart[k + 1]) : begin + wide;
    const from = Math.min(view.x(tasks.phaseStart[k]), begin + wide);
    paint.as(model.phases[tasks.phase[k]].colour, 1);
    ctx.fillRect(from, top, Math.max(Math.min(until, begin + wide) - from, 0.5), high);
  }
}

// What a task is at, at a moment.
function phaseAt(tasks, i, moment) {
  let k = tasks.firstPhase[i];
  while (k + 1 < tasks.firstPhase[i + 1] && tasks.phaseStart[k + 1] <= moment) k += 1;
  return k;
}

// One row for a whole lane: as high as its slots are in use, in the colour of what used them most.
function drawSummed(ctx, view, model, state, row, y) {
  const { tasks } = model;
  const scale = view.room / (view.to - view.from);
  const pixels = Math.ceil(view.room);
  const kinds = state.mode === 'wait' ? model.main_waits.length : state.kinds.length;
  const sums = new Float32Array(pixels * kinds);
  for (const segment of state.segments.get(row.lane) ?? []) {
    for (let i = firstAfter(tasks, segment, view.from); i < segment.end && tasks.launch[i] < view.to; i += 1) {
      const kind = state.mode === 'wait' ? tasks.wait[i] : state.kindOf[tasks.query[i]];
      const from = Math.max((tasks.launch[i] - view.from) * scale, 0);
      const to = Math.min((tasks.end[i] - view.from) * scale, pixels);
      for (let pixel = Math.floor(from); pixel < to; pixel += 1) {
        sums[pixel * kinds + kind] += Math.min(to, pixel + 1) - Math.max(from, pixel);
      }
    }
  }
  const paint = painter(ctx);
  let drawn = 0;
  for (let pixel = 0; pixel < pixels; pixel += 1) {
    let most = 0;
    let total = 0;
    for (let kind = 0; kind < kinds; kind += 1) {
      const value = sums[pixel * kinds + kind];
      total += value;
      if (value > sums[pixel * kinds + most]) most = kind;
    }
    if (total <= 0) continue;
    const high = Math.max(1, Math.min(total / model.lanes.slots[row.lane], 1) * row.height);
    const query = state.mode === 'wait' ? -1 : state.kinds[most];
    const colour = state.mode === 'wait' ? model.main_waits[most].colour : model.queries.colour[query] ?? model.others_colour;
    paint.as(colour, strength(state, query));
    ctx.fillRect(view.left + pixel, y + row.height - high, 1, high);
    drawn += 1;
  }
  ctx.globalAlpha = 1;
  return drawn;
}

// The coarsest bins that are no wider than two pixels, else the finest there are.
function levelFor(view, model) {
  const scale = view.room / (view.to - view.from);
  const fit = model.bins.filter((level) => level.width * scale <= 2);
  return fit.length ? fit[fit.length - 1] : model.bins[0];
}

function drawBins(ctx, view, model, state, row, y) {
  const level = levelFor(view, model);
  const first = Math.max(Math.floor(view.from / level.width), 0);
  const last = Math.min(Math.ceil(view.to / level.width), level.count);
  const paint = painter(ctx);
  let drawn = 0;
  for (let bin = first; bin < last; bin += 1) {
    const at = row.lane * level.count + bin;
    if (!level.busy[at]) continue;
    const x = view.x(bin * level.width);
    const width = view.x((bin + 1) * level.width) - x;
    const high = Math.max(1, (level.busy[at] / WHOLE_BYTE) * row.height);
    paint.as(colourOf(model, state, level.query[at], level.wait[at]), strength(state, level.query[at]));
    ctx.fillRect(x, y + row.height - high, width + 0.3, high);
    drawn += 1;
  }
  ctx.globalAlpha = 1;
  return drawn;
}

function drawStrip(ctx, view, model, row, y, look) {
  const { strip } = row;
  const bins = strip.values.length;
  const width = model.ticks / bins;
  gutter(ctx, view, look, y + row.height / 2, `${strip.name}, ${scaleWords(strip)}`, true);
  clip(ctx, view, () => {
    for (let bin = Math.max(Math.floor(view.from / width), 0); bin < Math.min(Math.ceil(view.to / width), bins); bin += 1) {
      const x = view.x(bin * width);
      const wide = view.x((bin + 1) * width) - x + 0.3;
      if (strip.values[bin] === UNKNOWN_BYTE) {
        ctx.fillStyle = look.missing;
        ctx.fillRect(x, y, wide, row.height);
      } else {
        const high = (strip.values[bin] / WHOLE_BYTE) * row.height;
        ctx.fillStyle = strip.colour;
        ctx.globalAlpha = 0.85;
        ctx.fillRect(x, y + row.height - high, wide, high);
        ctx.globalAlpha = 1;
      }
    }
  });
  ctx.strokeStyle = look.line;
  ctx.lineWidth = 1;
  ctx.strokeRect(view.left + 0.5, y + 0.5, view.room - 1, row.height - 1);
}

function scaleWords(strip) {
  if (strip.unit === 'share') return 'to 100 %';
  if (!(strip.most > 0)) return 'none';
  return `to ${strip.unit === 'rate' ? rate(strip.most) : `${strip.most.toFixed(strip.most < 10 ? 1 : 0)}`}`;
}

// What is under a point of the lanes.
function pointLanes(view, model, state, x, y) {
  const at = view.at(x);
  const row = state.lanes.rows.find((one) => y >= one.y && y < one.y + one.height);
  if (!row || x < view.left) return null;
  if (row.kind === 'gap') return { query: -1, lines: [row.host, 'processor, disk and network were not recorded on this host: unknown, not zero'] };
  if (row.kind === 'strip') {
    const value = row.strip.values[Math.floor((at / model.ticks) * row.strip.values.length)];
    if (value === undefined) return null;
    const amount = (value / WHOLE_BYTE) * row.strip.most;
    const said = { share: percent(amount), rate: rate(amount), slots: amount.toFixed(1) }[row.strip.unit];
    return { query: -1, lines: [`${row.strip.name} on ${row.host}`, value === UNKNOWN_BYTE ? 'no sample then: unknown, not zero' : said, utc(since(model, at))] };
  }
  if (row.kind !== 'lane') return null;
  const where = model.lanes.by === 'executor' ? `${model.lanes.name[row.lane]} on ${model.lanes.host[row.lane] || 'unknown host'}` : model.lanes.name[row.lane];
  if (model.bins) return binUnder(model, row, where, view, at);
  const slot = state.lanes.exact ? Math.floor((y - row.y) / row.rowPx) : -1;
  const slack = (2 * (view.to - view.from)) / view.room;
  for (const segment of state.segments.get(row.lane) ?? []) {
    if (slot >= 0 && segment.row !== slot) continue;
    const i = firstAfter(model.tasks, segment, at - slack);
    if (i < segment.end && model.tasks.launch[i] <= at + slack) return { query: known(model, model.tasks.query[i]), lines: taskLines(model, i, where, at) };
  }
  return null;
}

function known(model, query) {
  return query < model.queries.count ? query : -1;
}

function binUnder(model, row, where, view, at) {
  const level = levelFor(view, model);
  const bin = Math.floor(at / level.width);
  const cell = row.lane * level.count + bin;
  if (bin < 0 || bin >= level.count || !level.busy[cell]) return null;
  const query = known(model, level.query[cell]);
  return {
    query,
    lines: [
      where, `${percent(level.busy[cell] / WHOLE_BYTE)} of its slots in use for ${duration(level.width * model.tick_ms)}`,
      `${percent(level.share[cell] / WHOLE_BYTE)} of that for ${query >= 0 ? model.queries.name[query] : 'other queries'}`,
      `most of its tasks: ${model.main_waits[level.wait[cell]].name}`,
    ],
  };
}

function taskLines(model, i, where, at) {
  const { tasks } = model;
  const query = known(model, tasks.query[i]);
  const ran = (tasks.end[i] - tasks.launch[i]) * model.tick_ms;
  const lines = [
    query >= 0 ? model.queries.name[query] : 'a query without a bar',
    tasks.id ? `stage ${tasks.stage[i]}, task ${tasks.id[i]}, ${where}` : where,
    `ran ${duration(ran)} from ${utc(since(model, tasks.launch[i]))}`,
  ];
  if (tasks.phase && tasks.firstPhase[i] < tasks.firstPhase[i + 1]) lines.push(`phase: ${model.phases[tasks.phase[phaseAt(tasks, i, at)]].name}`);
  if (!tasks.shares) return [...lines, `waited most for: ${model.main_waits[tasks.wait[i]].name}`];
  const life = ran + tasks.slotMs[i];
  const waited = model.resources.map((resource, r) => [resource.name, tasks.shares[r][i]]);
  const told = waited.filter(([, share]) => share !== UNKNOWN_BYTE && share > 0).sort((a, b) => b[1] - a[1]);
  const untold = waited.filter(([, share]) => share === UNKNOWN_BYTE).map(([name]) => name);
  lines.push(told.length ? `waited: ${told.map(([name, share]) => `${name} ${duration((share / WHOLE_BYTE) * life)}`).join(', ')}` : 'no wait was recorded');
  if (untold.length) lines.push(`not recorded: ${untold.join(', ')}`);
  return lines;
}
