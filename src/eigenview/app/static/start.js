"use strict";
// Classes and their keys, figures, the other deeds; then the page begins.
{
  const { find } = app, RESERVED = "usngxmel";
  let keys = new Map(), drawn = "";

  // A class that is itself a digit or a letter has that key; the others one of 1 … 9 in order, and a letter of theirs.
  const assign = (classes) => {
    const taken = new Set(RESERVED), given = new Map(), numbers = [..."123456789"];
    const take = (key, name) => { taken.add(key); given.set(key, name); };
    for (const name of classes) if (/^[0-9a-z]$/.test(name.toLowerCase()) && !taken.has(name.toLowerCase())) take(name.toLowerCase(), name);
    const others = classes.filter((name) => ![...given.values()].includes(name));
    for (const name of others) {
      const number = numbers.find((key) => !taken.has(key)), letter = [...name.toLowerCase()].find((key) => /[a-z]/.test(key) && !taken.has(key));
      if (number) take(number, name);
      if (letter) take(letter, name);
    }
    const named = new Set(given.values()), free = [..."abcdefghijklmnopqrstuvwxyz,.;'"].filter((letter) => !taken.has(letter));
    for (const name of classes) if (!named.has(name) && free.length) given.set(free.shift(), name);  // any that is left
    return given;
  };
  const offered = () => app.state.classes.map(({ name }) => name).filter((name) => name !== app.state.none);
  const drawClasses = () => {
    const names = offered(), sizes = new Map(app.state.classes.map(({ name, known }) => [name, known]));
    keys = assign(names);
    find("none").querySelector("kbd").hidden = keys.has("0");  // a class is called so
    const letters = new Map();
    for (const [key, name] of keys) letters.set(name, [...(letters.get(name) || []), key]);
    const now = JSON.stringify([names, [...letters], eigenview.isDark()]);
    if (now === drawn) {  // the same buttons stay: one may have the focus
      for (const button of find("class-row").children) button.lastChild.textContent = sizes.get(button.dataset.label).toLocaleString("en");
      return;
    }
    drawn = now;
    find("class-row").replaceChildren(...names.map((name) => {
      const button = document.createElement("button"), text = document.createElement("span"), count = document.createElement("span");
      button.type = "button";
      button.dataset.label = name;
      text.textContent = name;
      count.className = "count";
      count.textContent = sizes.get(name).toLocaleString("en");
      button.append(...(letters.get(name) || []).map((key) => { const cap = document.createElement("kbd"); cap.textContent = key; return cap; }), app.mark(name), text, count);
      button.addEventListener("click", () => { give(name); button.blur(); });
      return button;
    }));
  };
  const give = (label) => app.modes[app.mode].give(label);
  const undo = async () => {
    if (app.state.last === null) return;
    if (await app.act("undo", { last: app.state.last }, "Taken back.") && app.mode === "review") app.modes.review.again();
  };
  const percent = (share) => `${Math.round(100 * share)}`;
  const clock = (seconds) => { const whole = Math.round(seconds), minutes = Math.floor(whole / 60); return minutes >= 60 ? `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")} h` : `${minutes}:${String(whole % 60).padStart(2, "0")}`; };
  const drawFigures = () => {
    const { figures } = app.state;
    find("by-hand").textContent = figures.by_hand.toLocaleString("en") + (figures.before ? ` (+ ${figures.before.toLocaleString("en")} before)` : "");
    find("accuracy").textContent = figures.accuracy === null ? "–" : `${percent(figures.accuracy)} % (${percent(figures.low)}–${percent(figures.high)}) of ${figures.tried}`;
    find("time").textContent = clock(figures.seconds);
    find("undo").disabled = app.state.last === null;
    find("title").textContent = `${app.state.title}, ${app.state.images.toLocaleString("en")} pictures`;
    document.title = `${figures.by_hand} · ${app.state.title} · Eigenview`;
  };
  const drawSpread = () => {
    if (!app.spread) return;
    const least = Math.max(0, Math.min(100, Number(find("certain").value) || 0)) / 100 * 255;
    let sure = 0, open = 0;
    for (let row = 0; row < app.state.images; row += 1) {
      if (app.spread.best[row] === 65535 || app.isKnown(row)) continue;
      open += 1;
      if (app.spread.shares[row] >= least) sure += 1;
    }
    find("spread-count").textContent = open ? `${sure.toLocaleString("en")} of ${open.toLocaleString("en")}` : "–";
  };
  app.enter = (mode) => {
    app.mode = mode;
    document.querySelectorAll("main > section").forEach((section) => { section.hidden = section.id !== mode; });
    document.querySelectorAll("input[name=mode]").forEach((radio) => { radio.checked = radio.value === mode; });
    find("skip").hidden = mode !== "ask";
    app.modes[mode].enter();
  };
  document.querySelectorAll("input[name=mode]").forEach((radio) => radio.addEventListener("change", () => { app.enter(radio.value); if (app.mode === "ask") radio.blur(); }));
  find("certain").addEventListener("input", drawSpread);
  find("none").addEventListener("click", () => { give(app.state.none); find("none").blur(); });
  find("skip").addEventListener("click", () => { app.modes[app.mode].skip(); find("skip").blur(); });
  find("undo").addEventListener("click", () => { undo(); find("undo").blur(); });
  find("new-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = find("new-class").value.trim();
    if (!name) { find("new-class").blur(); return; }
    if (await give(name)) find("new-class").value = "";  // else what was typed stays
    find("new-class").blur();
    if (app.mode === "review") find("review-tiles").focus();
  });
  const openExport = () => { find("export-said").textContent = ""; find("export").showModal(); document.querySelector("input[name=form]:checked").focus(); };
  find("export-open").addEventListener("click", openExport);
  find("help-open").addEventListener("click", () => find("help").showModal());
  find("export-form").addEventListener("submit", async (event) => {
    if (event.submitter && event.submitter.value === "close") return;
    event.preventDefault();
    const form = document.querySelector("input[name=form]:checked").value, certain = Math.max(0, Math.min(100, Number(find("export-certain").value) || 0)) / 100;
    find("export-said").textContent = "Writing …";
    find("export-go").disabled = true;
    find("export-said").textContent = await written({ form, certain });
    find("export-go").disabled = false;
  });
  const written = async (ask) => {  // it may take its time: what is answered meanwhile is taken
    try {
      const { answer, content: done } = await app.send("export", ask);
      return answer.ok ? `${done.folder}: ${done.labels.toLocaleString("en")} labels${done.empty ? `, ${done.empty.toLocaleString("en")} left empty` : ""}, ${done.answers.toLocaleString("en")} of them your own${done.pictures ? `; ${done.pictures.toLocaleString("en")} pictures in folders by class` : ""}${done.missing ? `; ${done.missing} pictures were not found` : ""}` : `Not written: ${done.error}`;
    } catch (error) { return `Not written: ${error.message}`; }
  };
  const MOVES = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "PageUp", "PageDown", "Home", "End", "Tab", "+", "-", "="]);
  document.addEventListener("keydown", (event) => {  // a key held down answers once
    const isText = event.key !== "Enter" && event.target.matches("input[type=text], input[type=search], input[type=number]");
    if (event.repeat && !MOVES.has(event.key) && !isText) { event.preventDefault(); event.stopImmediatePropagation(); }
  }, true);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input[type=text], input[type=search], input[type=number], select") || document.querySelector("dialog[open]");
    if (typing && event.key === "Escape" && event.target.matches("input")) event.target.blur();
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !app.state) return;
    const order = ["ask", "map", "review"], at = order.indexOf(app.mode);
    const onButton = event.target.matches("button, a, input[type=radio]");
    if (event.key === "u" || event.key === "Backspace") undo();
    else if (event.key === "s" || (event.key === " " && app.mode === "ask" && !onButton)) app.modes[app.mode].skip();
    else if (event.key === "0" && !keys.has("0")) give(app.state.none);
    else if (event.key === "n" || (event.key === "Enter" && app.mode === "ask" && !onButton)) { find("new-class").focus(); find("new-class").select(); }
    else if (event.key === ">") app.enter(order[(at + 1) % 3]);
    else if (event.key === "<") app.enter(order[(at + 2) % 3]);
    else if (event.key === "/") { app.enter("review"); find("find-text").focus(); }
    else if (event.key === "?") find("help").showModal();
    else if (event.key === "e") openExport();
    else if (app.modes[app.mode].key(event)) { /* the mode's own */ }
    else if (keys.has(event.key.toLowerCase())) give(keys.get(event.key.toLowerCase()));
    else return;
    event.preventDefault();
  });
  eigenview.redraws.push(() => { if (app.state) drawClasses(); });
  app.listeners.unshift((what) => { if (what === "state") { drawClasses(); drawFigures(); } drawSpread(); });
  app.begin = async () => {
    await app.refresh();
    if (document.body.dataset.ready) return;
    app.enter(app.mode);
    app.names = await (await app.get("api/names")).json();
    app.tell("names");
    document.body.dataset.ready = "yes";
  };
  addEventListener("focus", () => { if (document.body.dataset.ready) app.refresh().catch(() => {}); });  // from another window, perhaps
  app.begin().catch(app.watch);
}
