"use strict";
// Review: lists worth looking through, and search; pictures are chosen, then given a class or struck out.
{
  const { find } = app, lists = find("review-list"), note = find("review-note"), marked = new Set();
  const KINDS = [["unsure", "least sure first"], ["suspects", "doubtful labels"], ["odd", "like no others"], ["random", "drawn at random"], ["hand", "my own answers"], ["skipped", "skipped"]];
  let shown = { kind: "unsure", about: "", rows: [], notes: {} }, loads = 0;

  const grid = app.grid(find("review-tiles"), {
    size: 150,
    marks: () => marked,
    note: (row) => (shown.notes[row] ? `${app.labelOf(row)}? probably ${shown.notes[row]}` : ""),
    onMark: (row) => { if (!marked.delete(row)) marked.add(row); drawMarked(); grid.redraw(); },
    onOpen: (row) => app.modes.review.near(row),
  });
  const drawMarked = () => {
    find("marked-bar").hidden = !marked.size;
    find("marked-count").textContent = `${marked.size.toLocaleString("en")} chosen: press a class for all of them, or`;
  };
  const options = () => {
    const wanted = `${shown.kind} ${shown.about}`, entry = (value, text) => { const option = document.createElement("option"); option.value = value; option.textContent = text; return option; };
    const known = [...KINDS.map(([kind, text]) => entry(`${kind} `, text)), ...app.state.classes.map(({ name }) => entry(`class ${name}`, `found to be ${name}`))];
    if (!known.some((option) => option.value === wanted)) known.push(entry(wanted, { near: "neighbours of a picture", text: `words: ${shown.about}`, name: `names with ${shown.about}` }[shown.kind] || shown.about));
    if (lists.options.length === known.length && [...lists.options].every((option, at) => option.value === known[at].value)) { lists.value = wanted; return; }
    lists.replaceChildren(...known);
    lists.value = wanted;
  };
  const load = async (kind, about = "", keeps = false) => {  // keeps: one stays where one was in the list
    const turn = loads += 1;
    shown = { kind, about, rows: [], notes: {} };
    marked.clear();
    drawMarked();
    options();
    note.textContent = "…";
    if (!keeps) grid.show([]);  // nothing of the list before is chosen under the name of this one
    let said = "";
    try {
      if (kind === "name") {
        const wanted = about.toLowerCase();
        shown.rows = app.names.flatMap((name, row) => (name.toLowerCase().includes(wanted) ? [row] : []));
      } else Object.assign(shown, await (await app.get(`api/list/${kind}?about=${encodeURIComponent(about)}`)).json());
      const title = kind === "near" ? `most like ${app.nameOf(Number(about))}` : "";
      said = shown.why || `${shown.rows.length.toLocaleString("en")} pictures ${title}`;
    } catch (error) { said = error.message; }
    if (turn !== loads) return;  // answers may overtake each other
    note.textContent = said;
    grid.show(shown.rows, keeps);
    find("review-tiles").dataset.rows = shown.rows.length;
  };
  const targets = () => (marked.size ? [...marked] : document.activeElement === find("review-tiles") && grid.here() !== undefined ? [grid.here()] : []);
  const settle = (rows) => {
    const gone = new Set(rows);
    if (["unsure", "class", "suspects", "skipped", "random"].includes(shown.kind)) { shown.rows = shown.rows.filter((row) => !gone.has(row)); grid.show(shown.rows, true); }
    rows.forEach((row) => marked.delete(row));
    drawMarked();
    note.textContent = `${shown.rows.length.toLocaleString("en")} pictures`;
    grid.redraw();
  };
  const strike = async () => {
    const rows = targets(), label = shown.kind === "class" ? shown.about : rows.length ? app.labelOf(rows[0]) : "";
    if (!rows.length || !label) { app.say(rows.length ? "There is no label to strike out." : "Choose pictures first: click them, or press m.", true); return; }
    if (await app.act("strike", { rows, label, had: rows.map(app.hadOf) }, `Struck out: ${rows.length.toLocaleString("en")} not ${label}; they are asked next`)) settle(rows);
  };

  app.modes.review = {
    enter: () => { load(shown.kind, shown.about); grid.focus(); },
    give: async (label) => {
      const rows = targets();
      if (!rows.length) { app.say("Choose pictures first: click them, or walk to one with the arrow keys.", true); return false; }
      const isDone = await app.answer(rows, label, "review", rows.map(app.hadOf));
      if (isDone) settle(rows);
      return isDone;
    },
    again: () => load(shown.kind, shown.about, true),
    skip: async () => {},
    key: (event) => {
      if (event.key === "x") { strike(); return true; }
      if (event.key === "l" || event.key === "L") {
        const count = lists.options.length;
        lists.selectedIndex = (lists.selectedIndex + (event.key === "l" ? 1 : count - 1)) % count;
        lists.dispatchEvent(new Event("change"));
        return true;
      }
      if (event.key === "Escape") { marked.clear(); drawMarked(); grid.redraw(); return true; }
      return false;
    },
    near: (row) => { shown = { kind: "near", about: String(row), rows: [], notes: {} }; if (app.mode === "review") { load("near", String(row)); grid.focus(); } else app.enter("review"); },
  };
  lists.addEventListener("change", () => { const [kind, ...about] = lists.value.split(" "); load(kind, about.join(" ")); grid.focus(); });
  find("find-form").addEventListener("submit", (event) => { event.preventDefault(); if (find("find-text").value.trim()) { load("name", find("find-text").value.trim()); grid.focus(); } });
  find("find-words").addEventListener("click", () => { if (find("find-text").value.trim()) { load("text", find("find-text").value.trim()); grid.focus(); } });
  find("strike").addEventListener("click", strike);
  find("marked-none").addEventListener("click", () => { marked.clear(); drawMarked(); grid.redraw(); grid.focus(); });
  app.listeners.push((what) => {
    if (what === "state") { options(); find("find-words").hidden = !app.state.has_words; }
    if (what === "spread" && app.mode === "review") { grid.redraw(); if (shown.why) load(shown.kind, shown.about); }
  });
}
