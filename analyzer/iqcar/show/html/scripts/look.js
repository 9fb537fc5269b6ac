// What every page has: its look, and which section is in sight.
function startLook(again = () => {}) {
  const button = document.getElementById('look');
  if (!button) return;
  const ORDER = ['auto', 'light', 'dark'];
  const root = document.documentElement;
  let stored = 'auto';
  try {
    stored = localStorage.getItem('iqcar-look') ?? 'auto';
  } catch { /* a page from a disk may have no storage */ }
  function wear(look) {
    root.dataset.theme = ORDER.includes(look) ? look : 'auto';
    button.textContent = `Look: ${root.dataset.theme}`;
    again();
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

// Which section is in sight is marked in the list of sections.
function startSections() {
  const links = new Map([...document.querySelectorAll('.top nav a')].map((link) => [link.hash.slice(1), link]));
  const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => {
    links.forEach((link) => link.removeAttribute('aria-current'));
    links.get(one.target.id).setAttribute('aria-current', 'true');
  }), { rootMargin: '-20% 0px -75% 0px' });
  links.forEach((_, id) => watch.observe(document.getElementById(id)));
}
