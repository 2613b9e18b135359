"use strict";
// Ask: one picture, or nine; each stays in its place until all that are shown are settled.
{
  const { find } = app, box = find("asked"), nine = find("ask-nine");
  let batch = [], settled = new Map(), here = 0, isNine = false;  // settled: row → what was said of it

  app.shown = () => batch;
  app.forget = () => { batch = []; refill(); };  // after an undo: what was taken back is asked again, first
  const current = () => (app.mode === "ask" ? batch[here] : undefined);
  const draw = () => {
    box.classList.toggle("nine", isNine);
    const { state } = app;
    find("ask-note").textContent = batch.length ? `${state.waiting.toLocaleString("en")} chosen to be asked${state.skipped ? `, ${state.skipped} skipped` : ""}` : "";
    if (!batch.length) {
      const text = document.createElement("p");
      text.className = "empty";
      text.textContent = state.problem ? `It cannot go on: ${state.problem}` : state.doing ? `${state.doing[0].toUpperCase()}${state.doing.slice(1)} …` : "Nothing is left to ask. Review shows what is least sure; Export writes the labels.";
      box.replaceChildren(text);
      box.dataset.row = "";
      return;
    }
    const before = new Map([...box.children].map((child) => [child.dataset.row, child]));
    box.replaceChildren(...batch.map((row, place) => {
      let figure = before.get(String(row));
      if (!figure || figure.dataset.kind !== String(isNine)) {
        figure = document.createElement("figure");
        figure.dataset.row = row;
        figure.dataset.kind = isNine;
        figure.setAttribute("role", "listitem");
        figure.append(app.picture(app.large(row), row), document.createElement("figcaption"));
        figure.addEventListener("click", () => { here = batch.indexOf(row); draw(); });
      }
      figure.classList.toggle("here", place === here);
      figure.classList.toggle("settled", settled.has(row));
      if (place === here) figure.setAttribute("aria-current", "true"); else figure.removeAttribute("aria-current");
      figure.lastChild.textContent = settled.has(row) ? `✓ ${settled.get(row)}` : app.nameOf(row);
      return figure;
    }));
    box.dataset.row = batch[here];
  };
  const refill = () => {
    const { shown, queue } = app.state;
    for (const row of batch) if (shown[row]) settled.set(row, shown[row]); else if (shown[row] === "") settled.delete(row);  // undone
    if (batch.every((row) => settled.has(row))) { batch = queue.slice(0, isNine ? 9 : 1); settled = new Map(); here = 0; }
    if (settled.has(batch[here])) here = Math.max(0, batch.findIndex((row) => !settled.has(row)));
    if (queue.length > 1) new Image().src = app.large(queue.find((row) => !batch.includes(row)) ?? queue[1]);
    draw();
  };
  const isOpen = (row) => row !== undefined && !settled.has(row);

  app.modes.ask = {
    enter: () => refill(),
    give: async (label) => isOpen(current()) && app.answer([current()], label, "ask", [""]),
    skip: async () => isOpen(current()) && app.act("skip", { rows: [current()] }, `Skipped: ${app.nameOf(current())}`),
    key: (event) => {
      const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -3, ArrowDown: 3 };
      if (event.key in steps && isNine && batch.length) { here = Math.max(0, Math.min(batch.length - 1, here + steps[event.key])); draw(); return true; }
      if (event.key === "g") { nine.click(); return true; }
      return false;
    },
  };
  nine.addEventListener("click", () => {
    isNine = !isNine;
    nine.setAttribute("aria-pressed", String(isNine));
    batch = [];
    refill();
    nine.blur();
  });
  app.listeners.push((what) => { if (what === "state") refill(); if (what === "names") draw(); });
}
