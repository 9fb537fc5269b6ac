// Starting the page: copying, and then the pictures.
function startCopying() {
  document.querySelectorAll('button[data-copies]').forEach((button) =>
    button.addEventListener('click', () => copy(byId(button.dataset.copies).textContent, button.dataset.what, button)));
  document.querySelectorAll('button[data-saves]').forEach((button) => button.addEventListener('click', () => {
    const url = URL.createObjectURL(new Blob([byId(button.dataset.saves).textContent], { type: 'text/plain' }));
    make('a', { href: url, download: button.dataset.file }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }));
}

// What was drawn while it was folded away has no width yet.
addEventListener('toggle', (event) => event.target.open && event.target.querySelector('.plot') && dispatchEvent(new Event('resize')), true);
// What a link leads to may be folded away.
function unfold() {
  const place = location.hash.startsWith('#rule-') ? byId(location.hash.slice(1)) : null;
  const folded = place?.closest('details:not([open])');
  if (!folded) return;
  folded.open = true;
  place.scrollIntoView();
}
addEventListener('hashchange', unfold);
unfold();
startLook(() => pictures.again());
startSections();
startCopying();
startMatrix();
startExplore();
startTimeline();
startFixed();
startWhatIf();
document.documentElement.dataset.ready = 'yes';
