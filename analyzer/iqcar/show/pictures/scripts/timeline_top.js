// The upper part: time axis, queries, the stages of the selected one, and how many of its tasks waited.

const AXIS = 24;
const GAP = 10;
const WAITS = 60;
const MOST_ROWS_PX = 220;

// However many rows there are, they fit: hundreds of queries at once become a texture.
function rowHeight(rows, most) {
  const height = Math.min(most, MOST_ROWS_PX / Math.max(rows, 1));
  return height >= 4 ? Math.floor(height) : height;
}

const thick = (row) => (row > 6 ? row - 2 : row * 0.85);

// Which bars stand where, for a selection: drawing and pointing use the same places.
function layTop(model, selected) {
  const place = { axis: AXIS, queryTop: AXIS + 4, queryRow: rowHeight(model.queries.packed.count, 17) };
  let y = place.queryTop + model.queries.packed.count * place.queryRow;
  place.stages = [];
  if (selected >= 0) {
    const mine = [];
    for (let i = 0; i < model.stages.query.length; i += 1) if (model.stages.query[i] === selected) mine.push(i);
    const packed = rowsOf(mine.map((i) => model.stages.start[i]), mine.map((i) => model.stages.end[i]));
    place.stageTop = y + GAP + 2;
    place.stageRow = rowHeight(packed.count, 14);
    place.stages = mine.map((stage, i) => ({ stage, row: packed.rows[i] }));
    y = place.stageTop + packed.count * place.stageRow;
    place.waits = model.waiting.get(selected) ?? null;
    place.waitsTop = y + GAP;
    y = place.waitsTop + WAITS;
  }
  place.height = y + 8;
  return place;
}

function drawAxis(ctx, view, model, look) {
  const spanMs = (view.to - view.from) * model.tick_ms;
  const step = stepOf(spanMs, Math.max(2, view.room / 92));
  ctx.strokeStyle = look.line;
  ctx.fillStyle = look.faint;
  ctx.font = look.small;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'center';
  ctx.lineWidth = 1;
  const line = (ticks, text, dashes) => {
    const x = Math.round(view.x(ticks)) + 0.5;
    ctx.setLineDash(dashes);
    ctx.beginPath();
    ctx.moveTo(x, AXIS - 5);
    ctx.lineTo(x, view.height);
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.fillText(text, x, AXIS / 2 - 1);
  };
  const begins = [0, ...(model.gaps ?? []).map((gap) => gap.at)];
  let free = -Infinity; // where the last date ends
  begins.forEach((begin, i) => {
    const end = Math.min(view.to, begins[i + 1] ?? Infinity) - (i + 1 < begins.length ? 70 / (view.x(1) - view.x(0)) : 0);
    if (i && begin >= view.from && begin <= view.to) {
      const roomy = view.x(begin) > free;
      if (roomy) free = view.x(begin) + 76;
      line(begin, roomy ? utc(since(model, begin)).slice(0, 10) : '', [4, 3]);
    }
    const first = Math.max(Math.ceil(((view.from - begin) * model.tick_ms) / step), i ? 1 : 0) * step;
    for (let ms = first; begin + ms / model.tick_ms <= end; ms += step) {
      if (view.x(begin + ms / model.tick_ms) > free) line(begin + ms / model.tick_ms, moment(ms, step), []);
    }
  });
  ctx.textAlign = 'left';
}

function drawTop(ctx, view, model, state, look) {
  const place = state.place;
  const { queries, stages } = model;
  drawAxis(ctx, view, model, look);
  gutter(ctx, view, look, place.queryTop + 8, queries.count > 1 ? 'queries' : 'query');
  clip(ctx, view, () => {
    for (let i = 0; i < queries.count; i += 1) {
      if (queries.end[i] < view.from || queries.start[i] > view.to) continue;
      const y = place.queryTop + queries.packed.rows[i] * place.queryRow;
      const chosen = i === state.selected;
      const [x, width] = bar(view, queries.start[i], queries.end[i]);
      ctx.globalAlpha = state.selected < 0 || chosen ? 1 : 0.55;
      ctx.fillStyle = queries.colour[i];
      ctx.fillRect(x, y, width, thick(place.queryRow));
      ctx.globalAlpha = 1;
      if (chosen) outline(ctx, x, y, width, thick(place.queryRow), look.ink, 2);
      else if (queries.target[i] && place.queryRow >= 6) outline(ctx, x, y, width, thick(place.queryRow), look.ink, 1);
      if (place.queryRow >= 13) write(ctx, queries.name[i], x, y, width, thick(place.queryRow), state.selected < 0 || chosen ? inkOn(queries.colour[i]) : look.ink, look);
    }
  });
  if (state.selected < 0) return;
  const q = state.selected;
  if (place.stages.length) gutter(ctx, view, look, place.stageTop + 7, `${model.critical_path ? 'critical path' : 'stages'} of ${queries.name[q]}`);
  clip(ctx, view, () => {
    for (const { stage, row } of place.stages) {
      const y = place.stageTop + row * place.stageRow;
      const critical = stages.critical[stage] === 1;
      const launch = stages.launch[stage] === UNKNOWN_TIME ? stages.end[stage] : stages.launch[stage];
      const [x, width] = bar(view, stages.start[stage], stages.end[stage]);
      ctx.fillStyle = queries.colour[q];
      ctx.globalAlpha = critical ? 1 : 0.5;
      ctx.fillRect(x, y, width, thick(place.stageRow));
      ctx.globalAlpha = 1;
      if (launch > stages.start[stage]) {
        const [, waited] = bar(view, stages.start[stage], launch);
        ctx.fillStyle = look.paper;
        ctx.fillRect(x, y, waited, thick(place.stageRow));
        ctx.fillStyle = look.slots;
        ctx.fillRect(x, y, waited, thick(place.stageRow));
        outline(ctx, x, y, waited, thick(place.stageRow), model.resources[0].colour, 1);
      }
      if (critical && place.stageRow >= 6) outline(ctx, x, y, width, thick(place.stageRow), look.ink, 1);
      if (place.stageRow >= 12) write(ctx, stages.number[stage], x, y, width, thick(place.stageRow), launch > stages.start[stage] ? look.ink : critical ? inkOn(queries.colour[q]) : look.ink, look, launch > stages.start[stage] ? look.paper : null);
    }
  });
  drawWaits(ctx, view, model, state, look);
}

function drawWaits(ctx, view, model, state, look) {
  const { waits, waitsTop } = state.place;
  const bottom = waitsTop + WAITS;
  gutter(ctx, view, look, waitsTop + 8, 'its tasks that waited');
  if (!waits || waits.top <= 0) {
    ctx.fillStyle = look.faint;
    ctx.font = look.small;
    ctx.fillText(waits ? 'none that was recorded' : 'not in this file', view.left + 6, waitsTop + WAITS / 2);
    return;
  }
  gutter(ctx, view, look, waitsTop + 22, `at most ${waits.top < 10 ? waits.top.toFixed(1) : Math.round(waits.top)} at once`, true);
  if (waits.missing.length) gutter(ctx, view, look, waitsTop + 36, `not recorded: ${waits.missing.join(', ')}`, true);
  const bins = waits.series[0].length;
  clip(ctx, view, () => {
    const under = new Float64Array(bins);
    model.resources.forEach((resource, r) => {
      ctx.fillStyle = resource.colour;
      ctx.beginPath();
      for (let bin = 0; bin < bins; bin += 1) {
        const value = waits.series[r][bin] === UNKNOWN_BYTE ? 0 : (waits.series[r][bin] / WHOLE_BYTE) * waits.most;
        if (value <= 0) continue;
        const x = view.x(waits.start + bin * waits.width);
        const next = view.x(waits.start + (bin + 1) * waits.width);
        const high = ((WAITS - 4) * value) / waits.top;
        const low = ((WAITS - 4) * under[bin]) / waits.top;
        ctx.rect(x, bottom - low - high, Math.max(next - x, 0.5) + 0.3, high);
        under[bin] += value;
      }
      ctx.fill();
    });
    ctx.strokeStyle = look.line;
    ctx.beginPath();
    ctx.moveTo(view.left, bottom + 0.5);
    ctx.lineTo(view.left + view.room, bottom + 0.5);
    ctx.stroke();
  });
}

// What is under a point of the upper part.
function pointTop(view, model, state, x, y) {
  const place = state.place;
  const at = view.at(x);
  const { queries, stages } = model;
  const row = Math.floor((y - place.queryTop) / place.queryRow);
  if (y >= place.queryTop && row < queries.packed.count) {
    for (let i = queries.count - 1; i >= 0; i -= 1) {
      if (queries.packed.rows[i] !== row) continue;
      const [left, width] = bar(view, queries.start[i], queries.end[i]);
      if (x >= left - 1 && x <= left + width + 1) return { query: i, lines: queryLines(model, i) };
    }
    return null;
  }
  if (state.selected < 0) return null;
  for (const one of place.stages) {
    const top = place.stageTop + one.row * place.stageRow;
    const [left, width] = bar(view, stages.start[one.stage], stages.end[one.stage]);
    if (y >= top && y < top + place.stageRow && x >= left - 1 && x <= left + width + 1) {
      return { query: state.selected, lines: stageLines(model, one.stage) };
    }
  }
  const waits = place.waits;
  if (waits && y >= place.waitsTop && y <= place.waitsTop + WAITS) {
    const bin = Math.floor((at - waits.start) / waits.width);
    if (bin < 0 || bin >= waits.series[0].length) return null;
    const parts = model.resources
      .map((resource, r) => [resource.name, (waits.series[r][bin] / WHOLE_BYTE) * waits.most])
      .filter(([name, value]) => value > 0.005 && !waits.missing.includes(name));
    const lines = parts.map(([name, value]) => `${value.toFixed(value < 10 ? 1 : 0)} tasks waiting for ${name}`);
    return { query: state.selected, lines: [told(model, at, 100), ...(lines.length ? lines : ['no task waited that was recorded'])] };
  }
  return null;
}

function queryLines(model, i) {
  const { queries } = model;
  const ran = (queries.end[i] - queries.start[i]) * model.tick_ms;
  const share = ran > 0 ? ` (${percent(Math.min(queries.lost[i] / ran, 1))})` : '';
  const others = queries.lostToOthers[i] > 0 ? duration(queries.lostToOthers[i]) : 'none';
  return [
    queries.name[i],
    queries.id[i],
    `ran ${duration(ran)} from ${utc(since(model, queries.start[i]))}${queries.ended[i] ? '' : '; had not ended'}${queries.failed[i] ? '; failed' : ''}`,
    Number.isFinite(queries.lost[i]) ? `lost ${duration(queries.lost[i])}${share}, ${others} of it to other queries` : 'what it lost is not known here',
  ];
}

function stageLines(model, stage) {
  const { stages } = model;
  const known = stages.launch[stage] !== UNKNOWN_TIME;
  return [
    `stage ${stages.number[stage]}${stages.critical[stage] ? ', on the critical path' : ''}`,
    stages.name[stage],
    `ran ${duration((stages.end[stage] - stages.start[stage]) * model.tick_ms)}, lost ${duration(stages.lost[stage])} of its query's time`,
    known ? `its first task was launched after ${duration(Math.max(stages.launch[stage] - stages.start[stage], 0) * model.tick_ms)}` : 'no task of it was launched',
  ];
}

function bar(view, start, end) {
  const x = view.x(start);
  return [x, Math.max(view.x(end) - x, 1.5)];
}

function outline(ctx, x, y, width, height, colour, weight) {
  ctx.strokeStyle = colour;
  ctx.lineWidth = weight;
  ctx.strokeRect(x + weight / 2, y + weight / 2, Math.max(width - weight, 0.5), Math.max(height - weight, 0.5));
}

function clip(ctx, view, paint) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(view.left, 0, view.room, view.height);
  ctx.clip();
  paint();
  ctx.restore();
}

function gutter(ctx, view, look, y, text, faint = false) {
  ctx.fillStyle = faint ? look.faint : look.ink;
  ctx.font = look.small;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  ctx.fillText(fitted(ctx, text, view.left - 12), 4, y);
}

// A bar's name inside the bar, if there is room for some of it, wherever the bar is in sight.
function write(ctx, text, x, y, width, height, ink, look, plate = null) {
  const left = Math.max(x, look.left) + 4;
  const room = Math.min(x + width, look.right) - left - 4;
  if (room < 24) return;
  ctx.font = look.small;
  ctx.textBaseline = 'middle';
  ctx.textAlign = 'left';
  const said = fitted(ctx, text, room);
  if (plate && said) {
    // Letters on hatching cannot be read.
    ctx.fillStyle = plate;
    ctx.fillRect(left - 2, y + 1, ctx.measureText(said).width + 4, height - 2);
  }
  ctx.fillStyle = ink;
  ctx.fillText(said, left, y + height / 2 + 0.5);
}

function fitted(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (ctx.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return low > 0 ? `${text.slice(0, low)}…` : '';
}

function inkOn(colour) {
  const channel = (at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
  return light > 0.18 ? '#10161c' : '#ffffff';
}
