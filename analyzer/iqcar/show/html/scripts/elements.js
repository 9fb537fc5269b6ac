// Making elements. Text from logs becomes text nodes and nothing else: no markup is ever parsed.
const page = JSON.parse(document.getElementById('payload').textContent);

// Key in page.causes of what is no query: known causes are told apart by what was waited for.
const causeKey = (kind, resource, limited) => (page.kinds[kind].key !== 'known' ? page.kinds[kind].key
  : limited ? 'known-throttled' : `known-${resource}`);
const causeOfRow = (row) => causeKey(row.kind, page.requests[row.request].resource, page.requests[row.request].key === 'throttled');

// What a list of at most so many rows shows, and what its last row sums: iqcar.base.limits.fold.
const fold = (list, most) => (list.length > most ? [list.slice(0, most - 1), list.slice(most - 1)] : [list, []]);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === 'onclick') element.addEventListener('click', value);
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A name from a log: kept to itself, so that right-to-left text does not reorder what follows.
const name = (text) => make('bdi', {}, text);

const byId = (id) => document.getElementById(id);

// The button that is chosen of several.
const checked = (name) => document.querySelector(`input[name="${name}"]:checked`).value;

// Whether this is one picture of the page in a frame, which has no address of its own.
const framed = 'view' in document.body.dataset;

function say(text) {
  byId('said').textContent = text;
}

async function copy(text, what, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or where a page from a disk counts as insecure.
    const area = make('textarea', { class: 'unseen', 'aria-hidden': 'true' });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    if (!done) {
      say(`${what} could not be copied: the browser does not allow it.`);
      return;
    }
  }
  say(`${what} copied.`);
  if (button.dataset.label) return;
  button.dataset.label = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = button.dataset.label; delete button.dataset.label; }, 1500);
}

function copyButton(label, text, what) {
  return make('button', { type: 'button', class: 'copy', onclick: (event) => copy(text(), what, event.currentTarget) }, label);
}
