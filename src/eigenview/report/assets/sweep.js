"use strict";
// A sweep: importance, a slice for each setting, and all trials as lines over parallel axes.
{
  const { data, colour } = eigenview;
  const { sweep } = data;
  const settings = { displayModeBar: false, responsive: true };
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const axis = (title, more) => ({
    title: { text: safe(title), font: { size: 11, color: colour("soft") }, standoff: 6 },
    gridcolor: colour("line"), zeroline: false, linecolor: colour("rule"), tickfont: { size: 11, color: colour("soft") }, automargin: true, ...more,
  });
  const layout = (x, y, more) => ({
    margin: { l: 40, r: 10, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "ui-sans-serif, system-ui, sans-serif", color: colour("ink"), size: 12 },
    showlegend: false, xaxis: x, yaxis: y, ...more,
  });
  const draw = (name, traces, shape) => {
    const place = document.getElementById(`plot-${name}`);
    if (place && traces.length) Plotly.react(place, traces, shape, settings);
  };
  const numeric = (values) => values.every((value) => typeof value === "number");
  const isLog = (values) => numeric(values) && Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
  const having = (name) => sweep.trials.filter((trial) => name in trial.values);

  const slices = () => sweep.names.forEach((name, at) => {
    const trials = having(name), values = trials.map((trial) => trial.values[name]);
    const points = {
      x: numeric(values) ? values : values.map(safe), y: trials.map((trial) => trial.value), mode: "markers",
      text: trials.map((trial) => `trial ${trial.number}`), hovertemplate: "%{x}<br>%{y:.4g}<extra>%{text}</extra>",
      marker: { color: colour("accent"), size: 8 },
    };
    draw(`slice-${at}`, [points], layout(axis("", { type: numeric(values) ? (isLog(values) ? "log" : "linear") : "category" }), axis(sweep.objective)));
  });

  const importance = () => {
    const shares = [...sweep.importance].reverse();
    draw("importance", [{ type: "bar", orientation: "h", x: shares.map((pair) => pair[1]), y: shares.map((pair) => safe(pair[0])), marker: { color: colour("accent") }, hovertemplate: "%{x:.0%}<extra>%{y}</extra>" }],
      layout(axis("", { tickformat: ".0%", rangemode: "tozero" }), axis("")));
  };

  const place = (values) => {  // each value between 0 and 1 on its axis
    const kinds = [...new Set(values.map(String))];
    const numbers = !numeric(values) ? values.map((value) => kinds.indexOf(String(value))) : isLog(values) ? values.map(Math.log10) : values;
    const low = Math.min(...numbers), high = Math.max(...numbers);
    return numbers.map((number) => (high > low ? (number - low) / (high - low) : .5));
  };
  const shade = (share) => `hsl(${Math.round(260 - 200 * share)}, 70%, 48%)`;  // violet: worst, gold: best

  const parallel = () => {
    const trials = sweep.trials.filter((trial) => sweep.names.every((name) => name in trial.values));
    if (trials.length < 2) return;
    const columns = [...sweep.names.map((name) => trials.map((trial) => trial.values[name])), trials.map((trial) => trial.value)];
    const heads = [...sweep.names, sweep.objective], places = columns.map(place), at = heads.map((_, number) => number);
    const order = trials.map((_, number) => number).sort((first, second) => trials[first].value - trials[second].value);  // the best on top
    const traces = order.map((number) => ({
      x: at, y: places.map((column) => column[number]), mode: "lines+markers", opacity: .8,
      line: { color: shade(places.at(-1)[number]), width: 2 }, marker: { color: shade(places.at(-1)[number]), size: 6 },
      text: columns.map((column, head) => safe(`${heads[head]}: ${typeof column[number] === "number" ? Number(column[number].toPrecision(4)) : column[number]}`)),
      hovertemplate: `%{text}<extra>trial ${trials[number].number}</extra>`,
    }));
    draw("parallel", traces, layout(axis("", { tickvals: at, ticktext: heads.map(safe), range: [-.2, heads.length - .8] }), axis("", { showticklabels: false, showgrid: false, range: [-.05, 1.05] }), { hovermode: "closest" }));
  };

  const all = () => { slices(); importance(); parallel(); };
  eigenview.redraws.push(all);
  all();
}
