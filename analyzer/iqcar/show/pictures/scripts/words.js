// Numbers in words, as iqcar.base.formatting writes them: the page and the terminal say the same.
const words = (() => {
  // Python rounds a number that lies exactly between two to the even one; toFixed rounds it up.
  function fixed(value, digits) {
    const halves = value * 2 ** (digits + 1);
    if (Number.isInteger(halves) && Math.abs(halves % 2) === 1) {
      const scaled = value * 10 ** digits;
      const low = Math.floor(scaled);
      return ((low % 2 === 0 ? low : low + 1) / 10 ** digits).toFixed(digits);
    }
    return value.toFixed(digits);
  }

  const UNITS = [[1, 'ms'], [1000, 's'], [60000, 'min'], [3600000, 'h'], [86400000, 'days']];
  const LIMITS = [1000, 120000, 7200000, 345600000];
  const COLUMN_LIMITS = [1000, 3600000, 86400000, 3456000000];
  const unitOf = (ms, limits) => UNITS[limits.filter((limit) => ms >= limit).length];

  function duration(ms) {
    if (ms === null || ms === undefined || Number.isNaN(ms)) return 'unknown';
    const [each, unit] = unitOf(ms, LIMITS);
    return `${fixed(ms / each, each > 1 ? 1 : 0)} ${unit}`;
  }

  // What writes the durations of a column: all in one unit and with equal digits.
  function oneUnit(column) {
    const times = column.filter((ms) => ms > 0);
    const one = new Set(times.map((ms) => unitOf(ms, LIMITS)[1])).size <= 1;
    const [each, unit] = unitOf(Math.max(0, ...times), one ? LIMITS : COLUMN_LIMITS);
    const digits = each === 1 ? 0 : times.every((ms) => ms >= each / 20) ? 1 : 2;
    return (ms) => {
      if (ms === null || ms === undefined || Number.isNaN(ms)) return 'unknown';
      if (ms > 0 && ms < each / 2 / 10 ** digits) return `<${(10 ** -digits).toFixed(digits)} ${unit}`;
      return `${fixed(ms / each, ms ? digits : 0)} ${unit}`;
    };
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

  return { duration, oneUnit, percent, count, short, digits };
})();
