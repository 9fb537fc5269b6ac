// The timeline: queries and stages over time, lanes of tasks below, the same moments above each other.

const ZOOM = 1.4;
const PAN = 0.12;
const MOST_KINDS = 48;
const VIEWPORT_PX = 620;

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function iqcarTimeline(element, payload, { onSelect = () => {}, selected = null, mode = 'query' } = {}) {
  element.classList.add('iqt');
  if (payload.empty) {
    element.replaceChildren(el('p', { class: 'iqt-empty' }, payload.empty));
    return { update() {}, state: () => ({ empty: payload.empty }) };
  }
  const model = openPayload(payload);
  const state = {
    selected: -1, mode, from: 0, to: model.ticks, lanes: layLanes(model), place: null,
    segments: new Map(), frameMs: 0, drawn: 0, pending: false, awake: false,
  };
  for (const segment of model.tasks?.segments ?? []) {
    if (!state.segments.has(segment.lane)) state.segments.set(segment.lane, []);
    state.segments.get(segment.lane).push(segment);
  }
  rankKinds(model, state);
  const parts = build(element, model, mode);

  // Drawing -------------------------------------------------------------------------------------

  function look() {
    const style = getComputedStyle(element);
    const read = (name, fallback) => style.getPropertyValue(name).trim() || fallback;
    const paper = read('--iqt-paper', '#ffffff');
    const font = style.fontFamily;
    return {
      paper, ink: read('--iqt-ink', '#1d2329'), faint: read('--iqt-faint', '#59636e'), line: read('--iqt-line', '#dde2e7'),
      rail: read('--iqt-rail', '#f1f4f6'), wash: read('--iqt-wash', '#e6eff7'), small: `12px ${font}`, strong: `600 12px ${font}`,
    };
  }

  function hatch(ctx, colour, dense) {
    const tile = document.createElement('canvas');
    tile.width = tile.height = dense ? 5 : 7;
    const pen = tile.getContext('2d');
    pen.strokeStyle = colour;
    pen.lineWidth = 1;
    pen.beginPath();
    pen.moveTo(-1, 1); pen.lineTo(1, -1);
    pen.moveTo(0, tile.height); pen.lineTo(tile.width, 0);
    pen.moveTo(tile.width - 1, tile.height + 1); pen.lineTo(tile.width + 1, tile.height - 1);
    pen.stroke();
    return ctx.createPattern(tile, 'repeat');
  }

  function viewOf(height) {
    // A scroll bar beside the lanes must not shift them against what stands above.
    const width = parts.scroll.clientWidth;
    const left = Math.min(170, Math.round(width * 0.2));
    const room = Math.max(width - left - 8, 40);
    const scale = room / (state.to - state.from);
    return {
      width, height, left, room, from: state.from, to: state.to,
      x: (ticks) => left + (ticks - state.from) * scale,
      at: (x) => state.from + (x - left) / scale,
    };
  }

  function fit(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const ctx = canvas.getContext('2d');
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    return ctx;
  }

  function draw() {
    state.pending = false;
    const began = performance.now();
    const colours = look();
    state.place = layTop(model, state.selected);
    const above = viewOf(state.place.height);
    if (above.width <= 0) return;
    const ctx = fit(parts.top, above.width, above.height);
    colours.left = above.left;
    colours.right = above.left + above.room;
    colours.slots = hatch(ctx, model.resources[0].colour, true);
    drawTop(ctx, above, model, state, colours);
    const height = Math.min(state.lanes.height, VIEWPORT_PX);
    parts.spacer.style.height = `${state.lanes.height - height}px`;
    parts.scroll.style.height = `${height}px`;
    const below = viewOf(height);
    const pen = fit(parts.lanes, below.width, height);
    colours.missing = hatch(pen, colours.faint, false);
    state.drawn = drawLanes(pen, below, model, state, colours, parts.scroll.scrollTop);
    state.frameMs = performance.now() - began;
  }

  function redraw() {
    if (state.pending) return;
    state.pending = true;
    requestAnimationFrame(draw);
  }

  // Moving --------------------------------------------------------------------------------------

  function lookAt(from, to) {
    const least = Math.min(20, model.ticks);
    const span = Math.min(Math.max(to - from, least), model.ticks);
    const middle = (from + to) / 2;
    state.from = Math.min(Math.max(middle - span / 2, 0), model.ticks - span);
    state.to = state.from + span;
    hide();
    redraw();
    clearTimeout(state.saying);
    state.saying = setTimeout(() => { parts.said.textContent = inSight(); }, 400);
  }

  function inSight() {
    const step = stepOf((state.to - state.from) * model.tick_ms, 10);
    return state.to - state.from >= model.ticks ? 'The whole time is in sight.'
      : `In sight: ${told(model, state.from, step)} to ${told(model, state.to, step)}${model.gaps?.length ? '' : ' after the start'}.`;
  }

  function zoom(factor, around = (state.from + state.to) / 2) {
    lookAt(around - (around - state.from) / factor, around + (state.to - around) / factor);
  }

  function pan(part) {
    const by = (state.to - state.from) * part;
    lookAt(state.from + by, state.to + by);
  }

  const KEYS = {
    ArrowLeft: () => pan(-PAN), ArrowRight: () => pan(PAN), '+': () => zoom(ZOOM), '=': () => zoom(ZOOM), '-': () => zoom(1 / ZOOM),
    _: () => zoom(1 / ZOOM), 0: () => lookAt(0, model.ticks),
    ArrowDown: () => { parts.scroll.scrollTop += 60; }, ArrowUp: () => { parts.scroll.scrollTop -= 60; },
    Home: () => pan(-1e9), End: () => pan(1e9), Escape: hide,
  };

  parts.area.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const act = KEYS[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });

  // The wheel zooms once the picture was clicked or reached by keyboard, and always with Ctrl:
  // a reader who scrolls past must not get stuck in it.
  parts.area.addEventListener('wheel', (event) => {
    const inside = parts.area.contains(document.activeElement);
    if (!inside && !event.ctrlKey && !event.metaKey) return;
    if (event.shiftKey) return;
    event.preventDefault();
    const view = viewOf(0);
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / view.room);
    else zoom(Math.exp(-event.deltaY / 400), view.at(Math.max(event.offsetX, view.left)));
  }, { passive: false });

  // Pointing ------------------------------------------------------------------------------------

  let drag = null;
  function under(canvas, event) {
    const view = viewOf(canvas.clientHeight);
    if (canvas === parts.top) return pointTop(view, model, state, event.offsetX, event.offsetY);
    return pointLanes(view, model, state, event.offsetX, event.offsetY + parts.scroll.scrollTop);
  }

  function show(event, lines) {
    parts.tip.replaceChildren(...lines.map((line, i) => el('div', { class: i ? 'iqt-fact' : 'iqt-name' }, el('bdi', {}, line))));
    parts.tip.hidden = false;
    const box = element.getBoundingClientRect();
    const x = event.clientX - box.left;
    const y = event.clientY - box.top;
    const right = x + 16 + parts.tip.offsetWidth > box.width;
    parts.tip.style.left = `${Math.max(0, right ? x - parts.tip.offsetWidth - 12 : x + 14)}px`;
    parts.tip.style.top = `${y + 16}px`;
  }

  function hide() {
    parts.tip.hidden = true;
  }

  for (const canvas of [parts.top, parts.lanes]) {
    canvas.addEventListener('pointerdown', (event) => {
      if (event.button !== 0) return;
      parts.area.focus({ preventScroll: true });
      drag = { x: event.clientX, from: state.from, to: state.to, moved: false };
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      if (drag) {
        const view = viewOf(0);
        const by = ((drag.x - event.clientX) / view.room) * (drag.to - drag.from);
        if (Math.abs(drag.x - event.clientX) > 3) drag.moved = true;
        if (drag.moved) lookAt(drag.from + by, drag.to + by);
        return;
      }
      const found = under(canvas, event);
      canvas.style.cursor = found && found.query >= 0 ? 'pointer' : 'grab';
      if (found) show(event, found.lines);
      else hide();
    });
    canvas.addEventListener('pointerup', (event) => {
      const click = drag && !drag.moved;
      drag = null;
      const found = click ? under(canvas, event) : null;
      if (found && found.query >= 0) select(found.query, true);
    });
    canvas.addEventListener('pointercancel', () => { drag = null; });
    canvas.addEventListener('pointerleave', hide);
  }
  parts.scroll.addEventListener('scroll', () => { hide(); redraw(); });

  // Choosing ------------------------------------------------------------------------------------

  function select(query, told) {
    if (query === state.selected) return;
    state.selected = query;
    describe();
    redraw();
    if (told) onSelect(model.queries.id[query]);
  }

  function describe() {
    const chosen = state.selected >= 0 ? `; selected: ${queryLines(model, state.selected).join(', ')}` : '';
    parts.top.setAttribute('aria-label', `Timeline of ${plural(model.queries.count, 'query')} over ${duration(model.ticks * model.tick_ms)}${chosen}. The table below holds the same.`);
    fillTable(parts, model, state, (query) => select(query, true));
    fillLegend(parts, model, state);
  }

  for (const choice of parts.modes) {
    choice.addEventListener('change', () => {
      state.mode = choice.value;
      fillLegend(parts, model, state);
      redraw();
    });
  }
  const ACTS = { in: () => zoom(ZOOM), out: () => zoom(1 / ZOOM), all: () => lookAt(0, model.ticks) };
  for (const button of parts.buttons) button.addEventListener('click', () => ACTS[button.dataset.act]());
  parts.copy.addEventListener('click', () => copyTable(parts));
  new ResizeObserver(redraw).observe(element);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
  new MutationObserver(redraw).observe(document.documentElement, { attributes: true });

  state.selected = selected === null ? -1 : model.queries.number.get(selected) ?? -1;
  describe();
  parts.said.textContent = inSight();
  redraw();
  return {
    update({ selected: id }) {
      select(id === null || id === undefined ? -1 : model.queries.number.get(id) ?? -1, false);
    },
    state: () => ({
      from_ms: state.from * model.tick_ms, to_ms: state.to * model.tick_ms, mode: state.mode, drawn: state.drawn, frame_ms: state.frameMs,
      selected: state.selected < 0 ? null : model.queries.id[state.selected], tasks: model.tasks ? model.tasks.count : model.binned_tasks,
      lanes: model.lanes.name.length, exact: state.lanes.exact,
    }),
    draw,
  };
}

// Queries with most task time have a colour of their own where lanes are summed; the rest share one.
function rankKinds(model, state) {
  state.kindOf = new Uint8Array(65536);
  state.kinds = [];
  const time = model.tasks?.time;
  if (!time) return;
  const order = model.queries.id.map((_, i) => i).filter((i) => time[i] > 0).sort((a, b) => time[b] - time[a]);
  state.kinds = order.slice(0, MOST_KINDS);
  state.kinds.push(65535);
  state.kindOf.fill(state.kinds.length - 1);
  state.kinds.forEach((query, kind) => { state.kindOf[query] = kind; });
}
