// Numbers in words, as iqcar.base.formatting writes them: the page and the terminal say the same.
const words = (() => {
  // Python rounds a number that lies exactly between two to the even one; toFixed rounds it up.
  function fixed(value, digits) {
    const halves = digits === 0 ? value * 2 : value * 4;
    if (Number.isInteger(halves) && Math.abs(halves % 2) === 1) {
      const scaled = value * 10 ** digits;
      const low = Math.floor(scaled);
      return ((low % 2 === 0 ? low : low + 1) / 10 ** digits).toFixed(digits);
    }
    return value.toFixed(digits);
  }

  function duration(ms) {
    if (ms === null || ms === undefined || Number.isNaN(ms)) return 'unknown';
    if (ms < 1000) return `${fixed(ms, 0)} ms`;
    if (ms < 120000) return `${fixed(ms / 1000, 1)} s`;
    if (ms < 7200000) return `${fixed(ms / 60000, 1)} min`;
    if (ms < 345600000) return `${fixed(ms / 3600000, 1)} h`;
    return `${fixed(ms / 86400000, 1)} days`;
  }

  function percent(share) {
    if (share > 0 && share < 0.005) return '<1 %';
    return `${fixed(share * 100, 0)} %`;
  }

  const count = (n, one, several = `${one}s`) => `${n.toLocaleString('en-US')} ${n === 1 ? one : several}`;

  function short(text, width) {
    return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
  }

  // Three digits, as many people want to read of a number without a unit of its own.
  const digits = (value) => (value === 0 ? '0' : Number(value.toPrecision(3)).toString());

  return { duration, percent, count, short, digits };
})();
