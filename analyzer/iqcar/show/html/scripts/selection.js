// What is chosen, step by step; the URL's fragment holds it, so that a link shows the same again.
const selection = (() => {
  const STEPS = ['target', 'stage', 'resource', 'request', 'host', 'sourceStage', 'source'];
  // Which view each is chosen in; the source is a filter on all of them.
  const VIEW = { target: 0, stage: 1, resource: 1, request: 2, host: 2, sourceStage: 3, source: 9 };
  const PREFIX = '#explore?';
  const { queries, stages, hosts } = page.people;
  const listeners = [];
  let chosen = Object.fromEntries(STEPS.map((step) => [step, null]));

  const OTHER = 'other';
  const stageKey = (at) => (at < 0 ? OTHER : stages[at].id);
  const hostKey = (at) => (at === -2 ? OTHER : at === -1 ? 'unknown' : hosts[at]);
  const sourceStageKey = (row) => (row.kind > 1 ? causeOfRow(row)
    : `${sourceKey(row)}/${stageKey(row.sourceStage)}`);
  const sourceKey = (row) => (row.kind > 0 ? causeOfRow(row) : row.source < 0 ? OTHER : queries[row.source].id);

  // Keys of one row of blame, one for each step.
  const KEYS = {
    stage: (row) => stageKey(row.stage),
    resource: (row) => page.requests[row.request].resource,
    request: (row) => page.requests[row.request].key,
    host: (row) => hostKey(row.host),
    sourceStage: sourceStageKey,
    source: sourceKey,
  };

  function parse(fragment) {
    if (!fragment.startsWith(PREFIX)) return null;
    const given = new URLSearchParams(fragment.slice(PREFIX.length));
    return Object.fromEntries(STEPS.map((step) => [step, given.get(step)]));
  }

  function fragment() {
    const kept = new URLSearchParams();
    STEPS.forEach((step) => chosen[step] !== null && kept.set(step, chosen[step]));
    return PREFIX + kept.toString();
  }

  function show(next, remember) {
    chosen = { ...chosen, ...next };
    if (remember && !framed) history.pushState(null, '', fragment());
    listeners.forEach((listener) => listener(chosen));
  }

  // Choosing again takes a choice back. A new target forgets what was chosen for the last one.
  function choose(next) {
    if ('target' in next && next.target !== chosen.target) {
      show({ ...Object.fromEntries(STEPS.map((step) => [step, null])), ...next }, true);
      return;
    }
    const same = Object.entries(next).every(([step, value]) => chosen[step] === value);
    const changed = same ? Object.fromEntries(Object.keys(next).map((step) => [step, null])) : next;
    // What is narrower than the choice may not exist under it.
    const widest = Math.min(...Object.keys(next).map((step) => VIEW[step]));
    const later = STEPS.filter((step) => !(step in next) && step !== 'source' && VIEW[step] > widest);
    show({ ...Object.fromEntries(later.map((step) => [step, null])), ...changed }, true);
  }

  function restore() {
    const asked = parse(framed ? document.body.dataset.view : location.hash);
    if (asked) show({ ...Object.fromEntries(STEPS.map((step) => [step, null])), ...asked }, false);
    return asked !== null;
  }

  // What a link leads to comes into sight, and the keys go on from there; going back only restores.
  function reveal() {
    byId('explore').scrollIntoView({ behavior: 'instant' });
    byId('target')?.focus({ preventScroll: true });
  }
  addEventListener('click', (event) => {
    const link = event.target.closest('a[href^="#explore?"]');
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    history.pushState(null, '', link.hash);
    restore();
    reveal();
  });
  addEventListener('popstate', restore);
  addEventListener('hashchange', restore);

  return {
    STEPS, KEYS, choose, restore, reveal, fragment, show,
    get: () => chosen,
    onChange: (listener) => listeners.push(listener),
    link: (target, source) => PREFIX + new URLSearchParams({ target, ...(source ? { source } : {}) }),
  };
})();
