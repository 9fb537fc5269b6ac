// What if: one answer is shown at a time, chosen by kind of change and step, or in the table.
function startWhatIf() {
  const controls = byId('whatif-controls');
  if (!controls) return;
  const kind = byId('whatif-kind');
  const answers = [...document.querySelectorAll('.whatif-answer')];
  const choices = new Map([...controls.querySelectorAll('[data-kind]')].map((place) => [place.dataset.kind, {
    place,
    steps: JSON.parse(place.dataset.steps),
    input: place.querySelector('input, select'),
    shown: place.querySelector('output'),
  }]));
  const marks = new Map();

  function show(told) {
    const { steps, input, shown } = choices.get(kind.value);
    const step = steps[Number(input.value)];
    choices.forEach((one, key) => { one.place.hidden = key !== kind.value; });
    if (shown) {
      shown.textContent = step.label;
      input.setAttribute('aria-valuetext', step.label);
    }
    answers.forEach((answer, at) => { answer.hidden = at !== step.answer; });
    byId('whatif-as-it-was').hidden = step.answer !== null;
    marks.forEach((button, at) => {
      button.setAttribute('aria-pressed', String(at === step.answer));
      button.closest('tr').classList.toggle('picked', at === step.answer);
    });
    if (told && step.answer !== null) say(answers[step.answer].querySelector('.lead').textContent);
  }

  function choose(at, told = true) {
    for (const [key, { steps, input }] of choices) {
      const place = steps.findIndex((step) => step.answer === at);
      if (place < 0) continue;
      kind.value = key;
      input.value = String(place);
    }
    show(told);
  }

  byId('whatif-table').querySelectorAll('tbody th').forEach((cell, at) => {
    const button = make('button', { type: 'button', class: 'pick', onclick: () => choose(at) }, ...cell.childNodes);
    cell.replaceChildren(button);
    marks.set(at, button);
  });
  kind.addEventListener('change', () => show(true));
  choices.forEach(({ input }) => input.addEventListener('input', () => show(true)));
  controls.hidden = false;
  choose(Number(controls.dataset.best), false); // what the heading says
}
