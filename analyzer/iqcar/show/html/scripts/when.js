// The timeline beside exploring: the query chosen there is marked here, and the other way round.
function startTimeline() {
  if (!page.timeline) return;
  const explored = new Set(page.explore.targets.map((one) => page.people.queries[one.query].id));
  const timeline = iqcarTimeline(byId('timeline-view'), page.timeline, {
    selected: selection.get().target,
    onSelect: (id) => explored.has(id) && selection.get().target !== id && selection.choose({ target: id }),
  });
  // What can be scrolled can be scrolled by keyboard.
  const lanes = byId('timeline-view').querySelector('.iqt-scroll');
  for (const [key, value] of Object.entries({ tabindex: '0', role: 'region', 'aria-label': 'Lanes of tasks' })) lanes?.setAttribute(key, value);
  selection.onChange((chosen) => timeline.update({ selected: chosen.target }));
  pictures.painters.push(() => timeline.draw?.());
}
