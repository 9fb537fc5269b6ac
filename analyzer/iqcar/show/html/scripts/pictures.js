// Drawing with Plotly in the page's look; every picture says in words what it shows.
const pictures = (() => {
  const drawn = new Map();
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const paper = matchMedia('print');
  const PAPER_PX = 700; // an A4 or letter page between its margins
  let printing = false;

  function chosen() {
    const asked = document.documentElement.dataset.theme;
    if (printing || paper.matches) return 'light';
    return asked === 'light' || asked === 'dark' ? asked : dark.matches ? 'dark' : 'light';
  }

  // The template of the look: colours, and all that is the same in every figure of a kind.
  const template = () => page.figures.looks[chosen()];

  // What Plotly would take for markup is shown as it is written.
  const safe = (text) => text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/\$/g, '&#36;');

  // paint() returns { traces, layout }; it is asked again when the look changes.
  function draw(place, label, paint, onClick) {
    drawn.set(place, { label, paint, onClick });
    redraw(place);
  }

  function redraw(place) {
    const { label, paint, onClick } = drawn.get(place);
    const { traces, layout } = paint();
    place.setAttribute('role', 'img');
    place.setAttribute('aria-label', label);
    const whole = {
      template: template(),
      paper_bgcolor: 'rgba(0,0,0,0)',
      plot_bgcolor: 'rgba(0,0,0,0)',
      dragmode: false,
      ...layout,
      margin: { l: 8, r: 16, t: 8, b: 40, ...layout.margin },
    };
    if (printing) whole.width = Math.min(place.clientWidth, PAPER_PX);
    const options = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: false };
    Plotly.react(place, traces, whole, options).then(() => {
      place.removeAllListeners?.('plotly_click');
      if (onClick) place.on('plotly_click', (event) => onClick(event.points[0]));
      place.dataset.drawn = chosen();
    });
  }

  function clear(place, sentence) {
    drawn.delete(place);
    if (place.data) Plotly.purge(place);
    place.removeAttribute('role');
    place.removeAttribute('aria-label');
    place.replaceChildren(make('p', { class: 'empty' }, sentence));
  }

  // Others that paint with the page's colours, and are asked to when the look changes.
  const painters = [];
  const again = () => {
    drawn.forEach((_, place) => redraw(place));
    painters.forEach((paint) => paint());
  };
  dark.addEventListener('change', again);
  // A browser lays a page out for paper without telling the pictures in it how wide they are now.
  for (const [event, now] of [['beforeprint', true], ['afterprint', false]]) {
    addEventListener(event, () => {
      printing = now;
      again();
      // The page has its own width again only some time after the event.
      if (!now) setTimeout(() => drawn.forEach((_, place) => Plotly.Plots.resize(place)), 300);
    });
  }
  paper.addEventListener('change', again);

  // Rows of bars: as high as their number asks for.
  const rowsHigh = (rows) => 64 + 28 * Math.max(rows, 2);

  // Whether each of so many columns has room for a number, beside the names of the rows.
  const ROOM_PX = 44;
  const NAMES_PX = 150;
  const roomFor = (place, columns) => columns <= page.figures.withText && (place.clientWidth - NAMES_PX) / columns >= ROOM_PX;

  // Few columns are no wider than they need: one alone would fill the page.
  const MOST_PX = 220;
  const asWideAs = (place, columns) => { place.style.maxWidth = `${2 * NAMES_PX + MOST_PX * columns}px`; };

  // An axis with a name at 0, 1, and so on, down from the top or to the right.
  const names = (list, down = false) => ({
    tickmode: 'array', tickvals: list.map((_, i) => i), ticktext: list.map(safe), showgrid: false, zeroline: false,
    automargin: true, range: down ? [list.length - 0.5, -0.5] : [-0.5, list.length - 0.5],
  });

  return { painters, draw, clear, again, safe, names, rowsHigh, roomFor, asWideAs };
})();
