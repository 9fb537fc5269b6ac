// The payload decoded, times in words, and rows for bars. Times are ticks after the input's start.

const KINDS = { u1: Uint8Array, u2: Uint16Array, u4: Uint32Array, f4: Float32Array };
const UNKNOWN_TIME = 4294967295;
const UNKNOWN_BYTE = 255;
const WHOLE_BYTE = 250;

function decode(column) {
  const text = atob(column.b);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return new KINDS[column.t](bytes.buffer);
}

// Bars that overlap get different rows; each takes the first row that is free at its start.
function rowsOf(starts, ends) {
  const order = Array.from(starts.keys()).sort((a, b) => starts[a] - starts[b] || ends[a] - ends[b]);
  const rows = new Uint32Array(starts.length);
  const free = [];
  for (const i of order) {
    let row = free.findIndex((end) => end <= starts[i]);
    if (row < 0) row = free.length;
    free[row] = Math.max(ends[i], starts[i] + 1);
    rows[i] = row;
  }
  return { rows, count: free.length };
}

function openPayload(payload) {
  const q = payload.queries;
  const queries = {
    ...q, start: decode(q.start), end: decode(q.end), lost: decode(q.lost_ms), lostToOthers: decode(q.lost_to_others_ms),
    count: q.id.length, number: new Map(q.id.map((id, i) => [id, i])),
  };
  queries.packed = rowsOf(queries.start, queries.end);
  const s = payload.stages;
  const stages = {
    ...s, query: decode(s.query), start: decode(s.start), launch: decode(s.launch), end: decode(s.end),
    critical: decode(s.critical), lost: decode(s.lost_ms),
  };
  const hosts = new Map(payload.hosts.map((host) => [host.name, {
    ...host,
    strips: STRIPS.filter((strip) => host[strip.key]).map((strip) => ({ ...strip, colour: payload.strip_colours[strip.key], most: host[strip.key].most, values: decode(host[strip.key].v) })),
  }]));
  const waiting = new Map(Object.entries(payload.waiting).map(([query, one]) => {
    const series = one.series.map(decode);
    let top = 0;
    for (let bin = 0; bin < series[0].length; bin += 1) {
      top = Math.max(top, series.reduce((sum, values) => sum + values[bin], 0));
    }
    return [Number(query), { ...one, series, top: (top / WHOLE_BYTE) * one.most }];
  }));
  return {
    ...payload, queries, stages, hosts, waiting, sampled: payload.hosts.some((host) => host.sampled),
    tasks: payload.tasks ? openTasks(payload.tasks) : null,
    bins: payload.bins ? payload.bins.map((level) => ({
      ...level, query: decode(level.query), wait: decode(level.wait), busy: decode(level.busy), share: decode(level.share),
    })) : null,
  };
}

const STRIPS = [
  { key: 'slots', name: 'slots in use', unit: 'slots' },
  { key: 'host_cpu', name: 'host CPU', unit: 'share' },
  { key: 'host_disk', name: 'host disk', unit: 'share' },
  { key: 'host_net_in', name: 'network in', unit: 'rate' },
  { key: 'host_net_out', name: 'network out', unit: 'rate' },
];

// Tasks come by lane, row and launch: segments of one row, in which launches never fall. Ends can, by
// milliseconds, as a slot is told free late: `until` is the latest end so far.
function openTasks(packed) {
  const tasks = { count: packed.count };
  for (const name of ['lane', 'row', 'launch', 'end', 'query', 'wait']) tasks[name] = decode(packed[name]);
  tasks.shares = packed.shares ? packed.shares.map(decode) : null;
  tasks.stage = packed.stage ? decode(packed.stage) : null;
  tasks.id = packed.id ? decode(packed.id) : null;
  tasks.slotMs = packed.slot_ms ? decode(packed.slot_ms) : null;
  if (packed.phases) {
    const counts = decode(packed.phases);
    tasks.phaseStart = decode(packed.phase_start);
    tasks.phase = decode(packed.phase);
    tasks.firstPhase = new Uint32Array(tasks.count + 1);
    for (let i = 0; i < tasks.count; i += 1) tasks.firstPhase[i + 1] = tasks.firstPhase[i] + counts[i];
  }
  tasks.segments = [];
  tasks.until = tasks.end.slice();
  for (let i = 0; i < tasks.count; i += 1) {
    const last = tasks.segments[tasks.segments.length - 1];
    if (last && last.lane === tasks.lane[i] && last.row === tasks.row[i]) {
      last.end = i + 1;
      tasks.until[i] = Math.max(tasks.until[i - 1], tasks.end[i]);
    }
    else tasks.segments.push({ lane: tasks.lane[i], row: tasks.row[i], begin: i, end: i + 1 });
  }
  tasks.time = new Float64Array(65536);
  for (let i = 0; i < tasks.count; i += 1) tasks.time[tasks.query[i]] += tasks.end[i] - tasks.launch[i];
  return tasks;
}

// First task of a segment that ends after a moment.
function firstAfter(tasks, segment, moment) {
  let low = segment.begin;
  let high = segment.end;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (tasks.until[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low;
}

const { duration, percent } = words;

function rate(bytes) {
  const units = ['B/s', 'KB/s', 'MB/s', 'GB/s'];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000,
  600000, 900000, 1800000, 3600000, 7200000, 10800000, 21600000, 43200000, 86400000];

function stepOf(spanMs, most) {
  const least = spanMs / most;
  return STEPS_MS.find((step) => step >= least) ?? Math.ceil(least / 86400000) * 86400000;
}

// A moment after the start, as exactly as the step between two labels needs.
function moment(ms, step) {
  if (step < 1000) return `${(ms / 1000).toFixed(step < 10 ? 3 : step < 100 ? 2 : 1)} s`;
  const whole = Math.round(ms / 1000);
  if (whole < 120 && step < 60000) return `${whole} s`;
  const [h, m, s] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  const two = (n) => String(n).padStart(2, '0');
  if (step >= 86400000) return `day ${Math.floor(h / 24) + 1}`;
  return h ? `${h}:${two(m)}:${two(s)} h` : `${m}:${two(s)} min`;
}

// The time of a tick since the epoch, with what is left out before it.
function since(model, ticks) {
  const gaps = (model.gaps ?? []).filter((gap) => ticks >= gap.at);
  return gaps.reduce((ms, gap) => ms + gap.ms, model.origin_ms + ticks * model.tick_ms);
}

// A tick in words: after the start, or as a date where times between are left out.
function told(model, ticks, step) {
  return model.gaps?.length ? utc(since(model, ticks)).slice(0, 19) : moment(ticks * model.tick_ms, step);
}

function utc(ms) {
  const text = new Date(ms).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 23)} UTC`;
}

function plural(count, word) {
  return words.count(count, word, `${word.replace(/y$/, 'ie')}s`);
}
