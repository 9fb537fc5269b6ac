// Figures that are shown as they were drawn, in the look of the page.
function startFixed() {
  const { fixed } = page;

  function showFigure(place, figure, label) {
    const { margin } = page.figures.looks.light.layout;
    pictures.draw(place, label, () => {
      const { data, layout } = structuredClone(figure);
      return { traces: data, layout: { margin, ...layout } };
    });
  }

  const hosts = byId('hosts-series');
  if (hosts) showFigure(hosts, fixed.hosts, 'Hosts over time: slots in use, processor, disks and network; the table above has the means.');
  const executors = byId('executors-series');
  if (executors && fixed.executors) showFigure(executors, fixed.executors, 'Slots of each application over time, running tasks or idle; the table below has the means.');
  const mixtures = byId('mixtures');
  if (mixtures && fixed.mixtures) showFigure(mixtures, fixed.mixtures, 'Which topics explain the stragglers; the table below has the numbers.');

  const chooser = byId('boxes-stage');
  if (!chooser) return;
  function showBoxes() {
    const one = fixed.boxes[chooser.selectedIndex];
    showFigure(byId('boxes-picture'), one.figure, 'Stragglers beside the other tasks of their stage, feature by feature; the table below has the numbers.');
    numbers.table(byId('boxes-numbers'), 'Medians of stragglers and of the other tasks, the least likely to be chance first', [
      { title: 'feature', text: (row) => row.feature },
      { title: 'stragglers', number: true, text: (row) => row.slow },
      { title: 'other tasks', number: true, text: (row) => row.normal },
      { title: 'Wilcoxon p', number: true, text: (row) => (row.p < 0.001 ? '<0.001' : words.digits(row.p)), raw: (row) => row.p },
      { title: 'MQD', number: true, text: (row) => words.digits(row.mqd), raw: (row) => row.mqd },
    ], one.rows, 'Nothing that was recorded tells its tasks apart.');
  }
  chooser.addEventListener('change', showBoxes);
  showBoxes();
}
