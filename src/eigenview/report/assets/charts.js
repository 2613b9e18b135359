"use strict";
// Charts: the same few marks everywhere, coloured by the page's own palette.
{
  const { data, colour, isDark } = eigenview;
  const series = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d1f", "#7b848f"];
  const dashes = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const alone = data.runs.length === 1;
  const settings = { displayModeBar: false, responsive: true };
  const safe = (text) => String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  const stroke = (at) => (alone ? colour("accent") : series[at % series.length]);
  const line = (at, more) => ({ color: stroke(at), width: 2, dash: alone ? "solid" : dashes[Math.floor(at / series.length) % 6], ...more });

  const axis = (title, more) => ({
    title: { text: title, font: { size: 11, color: colour("soft") }, standoff: 6 },
    gridcolor: colour("line"), zeroline: false, linecolor: colour("rule"), ticks: "outside", ticklen: 3,
    tickcolor: colour("rule"), tickfont: { size: 11, color: colour("soft") }, automargin: true, nticks: 6, ...more,
  });
  const layout = (x, y, more) => ({
    margin: { l: 40, r: 10, t: 6, b: 34 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "ui-sans-serif, system-ui, sans-serif", color: colour("ink"), size: 12 },
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("rule"), font: { color: colour("ink"), size: 12 } },
    hovermode: "x unified", showlegend: false, xaxis: x, yaxis: y, dragmode: "zoom", ...more,
  });
  const draw = (name, traces, shape) => {
    const place = document.getElementById(`plot-${name}`);
    if (place && traces.length) Plotly.react(place, traces, shape, settings);
  };

  const curve = (name, title) => {
    const traces = [], marks = [];
    data.runs.forEach((run, at) => {
      const values = run.curves[name];
      if (!values) return;
      traces.push({ ...values, name: safe(run.name), mode: values.x.length > 1 ? "lines" : "markers", line: line(at), marker: { color: stroke(at) }, hovertemplate: "%{y:.4g}<extra>" + (alone ? "" : safe(run.name)) + "</extra>" });
      const chance = run.curves.chance;
      const level = (other) => (other.curves.chance ? other.curves.chance.y.at(-1) : null);
      const first = data.runs.findIndex((other) => level(other) === level(run));  // runs of one level share one line
      if (name === "loss" && chance && first === at) {
        const shared = data.runs.every((other) => level(other) === level(run));
        traces.push({ ...chance, name: "chance", mode: "lines", line: { color: shared ? colour("soft") : stroke(at), width: 1.5, dash: "dash" }, hovertemplate: "%{y:.4g}<extra>chance</extra>" });
      }
      if (name === "loss" && alone) {
        run.alarms.filter((alarm) => alarm.step !== null).slice(0, 20).forEach((alarm) => marks.push({ type: "line", x0: alarm.step, x1: alarm.step, yref: "paper", y0: 0, y1: 1, line: { color: colour("bad"), width: 1 } }));
      }
    });
    draw(name, traces, layout(axis("step"), axis("", { tickformat: title === "share" ? ".0%" : undefined }), { shapes: marks }));
  };

  const plane = () => {
    const traces = [];
    data.runs.forEach((run, at) => {
      const path = run.curves.plane;
      if (!path) return;
      const last = path.x.length - 1;
      traces.push({ ...path, mode: "lines", line: line(at, { width: 1.5 }), opacity: .6, name: safe(run.name), hovertemplate: "alignment %{x:.3f}<br>uniformity %{y:.3f}<extra>" + (alone ? "" : safe(run.name)) + "</extra>" });
      traces.push({ x: [path.x[0], path.x[last]], y: [path.y[0], path.y[last]], mode: "markers+text", text: alone ? ["start", "end"] : ["", ""], textposition: "top center", textfont: { size: 11, color: colour("soft") }, hoverinfo: "skip", marker: { size: [8, 12], color: stroke(at), symbol: ["circle-open", "circle"], line: { width: 2, color: stroke(at) } }, cliponaxis: false });
    });
    const low = Math.min(...data.runs.flatMap((run) => (run.curves.plane || { y: [] }).y));
    const near = data.floor !== null && Number.isFinite(low) && low - data.floor < 2;
    const floor = near ? [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: data.floor, y1: data.floor, line: { color: colour("soft"), width: 1, dash: "dot" } }] : [];
    const said = near ? [{ xref: "paper", x: 1, y: data.floor, text: "floor", showarrow: false, xanchor: "right", yanchor: "bottom", font: { size: 11, color: colour("soft") } }] : [];
    draw("plane", traces, layout(axis("alignment"), axis("uniformity"), { hovermode: "closest", shapes: floor, annotations: said }));
  };

  const spectrum = () => {
    const traces = [];
    data.runs.forEach((run, at) => run.spectra.forEach((series, number) => {
      if (!alone && number) return;
      const label = alone ? series.name : run.name;
      traces.push({ x: series.values.map((_, place) => place + 1), y: series.values, mode: "lines", name: safe(label), line: alone ? { color: number ? colour("soft") : colour("accent"), width: 2, dash: number ? "dash" : "solid" } : line(at), hovertemplate: "%{y:.3g}<extra>" + safe(label) + "</extra>" });
    }));
    draw("spectrum", traces, layout(axis("rank"), axis("share of the largest", { type: "log", dtick: 1, exponentformat: "power" }), { showlegend: traces.length > 1, legend: { x: .98, y: .98, xanchor: "right", bgcolor: "rgba(0,0,0,0)", font: { size: 11 } } }));
  };

  const laplacian = () => {
    const traces = [], said = [];
    data.runs.forEach((run, at) => {
      const graph = run.laplacian;
      if (!graph) return;
      const shade = graph.values.map((_, place) => (alone && place >= graph.clusters ? colour("base") : stroke(at)));
      traces.push({ x: graph.values.map((_, place) => place + 1), y: graph.values, mode: alone ? "markers" : "lines+markers", name: safe(run.name), line: line(at, { width: 1 }), marker: { size: 7, color: alone ? shade : stroke(at) }, hovertemplate: "%{y:.3f}<extra>" + (alone ? "" : safe(run.name)) + "</extra>" });
      const upper = graph.values[graph.clusters];
      if (alone && upper !== undefined) {
        const middle = (graph.values[graph.clusters - 1] + upper) / 2;
        said.push({ x: graph.clusters + .5, y: middle, text: `${graph.clusters} groups`, showarrow: true, arrowhead: 0, arrowcolor: colour("soft"), ax: 48, ay: middle < .12 * Math.max(...graph.values) ? -1 : 22, font: { size: 11, color: colour("ink") } });
      }
    });
    draw("laplacian", traces, layout(axis("number"), axis("eigenvalue", { rangemode: "tozero" }), { annotations: said }));
  };

  const confusion = () => {
    const table = data.confusion;
    if (!table) return;
    const names = table.classes.map((name) => safe(name.length > 18 ? `${name.slice(0, 17)}…` : name));
    const few = names.length <= 15, places = names.map((_, at) => at);
    const text = table.shares.map((row) => row.map((share) => (few && share >= .005 ? Math.round(100 * share) : "")));
    const scale = isDark() ? [[0, colour("card")], [.02, "#1d3448"], [.5, "#2f79ab"], [1, "#a7d8f5"]] : [[0, colour("card")], [.02, "#e4eef6"], [.5, "#5d9fcd"], [1, "#08436f"]];
    const hover = table.counts.map((row, at) => row.map((count, to) => `${names[at]} read as ${names[to]}: ${count}`));
    const ticks = few || names.length <= 40 ? { tickvals: places, ticktext: names, tickangle: -45 } : { showticklabels: false };
    draw("confusion", [{ type: "heatmap", z: table.shares, x: places, y: places, text, texttemplate: few ? "%{text}" : "", textfont: { size: 11 }, hovertext: hover, hovertemplate: "%{hovertext}<extra></extra>", colorscale: scale, zmin: 0, zmax: 1, showscale: false, xgap: few ? 2 : 0, ygap: few ? 2 : 0 }],
      layout(axis("read as, % of the row", { ...ticks, showgrid: false, ticks: "", nticks: undefined }), axis("", { ...ticks, tickangle: 0, autorange: "reversed", showgrid: false, ticks: "", nticks: undefined, scaleanchor: "x", constrain: "domain" }), { hovermode: "closest", margin: { l: 70, r: 10, t: 6, b: 70 } }));
  };

  const all = () => {
    ["loss", "alignment", "uniformity", "effective_rank", "learning_rate"].forEach((name) => curve(name));
    curve("knn_accuracy", "share");
    plane(); spectrum(); laplacian(); confusion();
  };
  eigenview.redraws.push(all);
  all();
}
