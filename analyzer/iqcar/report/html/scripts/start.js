// Starting the page: the look, copying, and then the pictures.
function startLook() {
  const button = byId('look');
  const ORDER = ['auto', 'light', 'dark'];
  const root = document.documentElement;
  let stored = 'auto';
  try {
    stored = localStorage.getItem('iqcar-look') ?? 'auto';
  } catch { /* a page from a disk may have no storage */ }
  function wear(look) {
    root.dataset.theme = ORDER.includes(look) ? look : 'auto';
    button.textContent = `Look: ${root.dataset.theme}`;
    pictures.again();
  }
  button.addEventListener('click', () => {
    const next = ORDER[(ORDER.indexOf(root.dataset.theme) + 1) % ORDER.length];
    try {
      localStorage.setItem('iqcar-look', next);
    } catch { /* it lasts for this visit then */ }
    wear(next);
  });
  wear(stored);
}

function startCopying() {
  document.querySelectorAll('button[data-copies]').forEach((button) =>
    button.addEventListener('click', () => copy(byId(button.dataset.copies).textContent, button.dataset.what)));
  document.querySelectorAll('button[data-saves]').forEach((button) => button.addEventListener('click', () => {
    const url = URL.createObjectURL(new Blob([byId(button.dataset.saves).textContent], { type: 'text/plain' }));
    make('a', { href: url, download: button.dataset.file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }));
}

// Which section is in sight is marked in the list of sections.
function startSections() {
  const links = new Map([...document.querySelectorAll('.top nav a')].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => {
    links.forEach((link) => link.removeAttribute('aria-current'));
    links.get(one.target.id).setAttribute('aria-current', 'true');
  }), { rootMargin: '-20% 0px -75% 0px' });
  links.forEach((_, id) => watch.observe(byId(id)));
}

startLook();
startSections();
startCopying();
startMatrix();
startExplore();
startTimeline();
startFixed();
document.documentElement.dataset.ready = 'yes';
