"use strict";
// The map: every picture a dot, coloured by its class and strong where that is sure; a lasso gives many one label.
{
  const { find } = app, canvas = find("map-canvas"), pen = canvas.getContext("2d"), note = find("map-note");
  const NOTHING = "Nothing is chosen.";
  const LEVELS = 4, state = { zoom: 1, x: .5, y: .5, hover: -1, picked: -1, lasso: null, isLasso: true };
  const marked = new Set();  // chosen one by one, or by the lasso; without any, the picked one is chosen
  let places = null, chosen = [], loading = false, extent = [1, 1], walks = false, near = { row: -1, rows: null };  // rows: a promise of them
  const tiles = app.grid(find("map-tiles"), { size: 92, onOpen: (row) => (marked.has(row) ? leaveOut(row) : pick(row)) });

  const load = async () => {
    if (places || loading) return;
    loading = true;
    try {
      while (!app.state.has_map) {
        note.textContent = app.state.problem || "The map is being made …";
        await new Promise((done) => { setTimeout(done, 1000); });
        await app.refresh();
      }
      places = new Uint16Array(await (await app.get("api/map")).arrayBuffer());
      extent = eigenview.extentOf(places);
      if (!chosen.length) note.textContent = NOTHING;
    } catch (error) { note.textContent = error.message; }
    loading = false;
    redraw();
  };
  const count = () => app.state.images;
  const radius = () => (count() > 8000 ? 2 : count() > 2500 ? 2.6 : 3.6);
  const stamps = new Map();
  const stamp = (number, level, ratio) => {
    const key = `${number} ${level} ${eigenview.isDark()} ${ratio} ${radius()}`;
    if (!stamps.has(key)) {
      const small = document.createElement("canvas"), size = Math.ceil((radius() * 2.6 + 2) * ratio), ink = small.getContext("2d");
      small.width = small.height = size;
      ink.globalAlpha = number < 0 ? .5 : .25 + .75 * level / (LEVELS - 1);
      ink.fillStyle = number < 0 ? eigenview.colour("base") : eigenview.groupColour(number);
      eigenview.shapePath(ink, Math.max(0, number), size / 2, size / 2, radius() * ratio);
      ink.fill();
      stamps.set(key, small);
    }
    return stamps.get(key);
  };
  const ring = (row, width, colour = "ink") => {
    const [x, y] = onScreen(row);
    pen.strokeStyle = eigenview.colour(colour); pen.lineWidth = width;
    pen.beginPath(); pen.arc(x, y, radius() + 4, 0, 2 * Math.PI); pen.stroke();
  };
  const draw = () => {
    find("map").classList.toggle("plain", !chosen.length);
    if (app.mode !== "map" || !places) return;
    const started = performance.now(), ratio = fit(extent);
    const numbers = app.spread ? app.spread.classes.map((name) => app.numberOf(name)) : [], scale = view.scale * ratio;
    const plain = stamp(-1, 0, ratio), half = plain.width / 2;
    const stamped = numbers.map((number) => Array.from({ length: LEVELS }, (_, level) => stamp(number, level, ratio)));
    const left = canvas.width / 2 - half - state.x * scale, top = canvas.height / 2 - half + state.y * scale;
    for (let row = 0; row < count(); row += 1) {
      const best = app.spread ? app.spread.best[row] : 65535;
      const dot = best === 65535 ? plain : stamped[best][app.spread.shares[row] >> 6];  // four levels of how sure it is
      pen.drawImage(dot, left + places[2 * row] / 65535 * scale, top - places[2 * row + 1] / 65535 * scale);
    }
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (app.spread) for (let row = 0; row < count(); row += 1) if (app.spread.flags[row] & app.flags.given) ring(row, 1.5);
    for (const row of chosen.slice(0, 5000)) ring(row, 1, "focus");
    if (state.picked >= 0) ring(state.picked, 3);
    if (state.hover >= 0) ring(state.hover, 2);
    if (state.lasso) {
      pen.strokeStyle = eigenview.colour("focus"); pen.lineWidth = 2;
      pen.beginPath(); state.lasso.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y))); pen.closePath(); pen.stroke();
    }
    canvas.dataset.drawn = count();
    canvas.dataset.spread = app.spread ? app.spread.turn : -1;
    canvas.dataset.milliseconds = (performance.now() - started).toFixed(1);
  };
  const fill = (row) => {
    const words = document.createElement("div"), name = document.createElement("b"), more = document.createElement("span");
    name.textContent = app.nameOf(row);
    more.className = "note";
    more.textContent = app.labelOf(row) ? `${app.labelOf(row)}${app.isKnown(row) ? ", labelled" : `, ${Math.round(100 * app.sureness(row))} %`}` : "no label yet";
    words.append(name, more);
    return [app.picture(app.small(row), row), words];
  };
  const { view, redraw, fit, onScreen, nearestTo, hover, zoomBy, moveTo, spot, press } = eigenview.plane({
    canvas, state, count, fill, places: () => places, pick: (row) => pick(row), draw: () => draw(),
  });
  const pick = async (row) => {
    state.picked = row;
    if (!walks || row < 0) marked.clear();
    chosen = marked.size ? [...marked] : row < 0 ? [] : [row];
    canvas.dataset.chosen = chosen.length;
    canvas.dataset.picked = row;
    if (row < 0) { tiles.show([]); note.textContent = NOTHING; } else {
      note.textContent = marked.size ? many() : `${app.nameOf(row)}: a class goes to this picture; its neighbours:`;
      if (!marked.size) tiles.show([row]);
      near = { row, rows: app.get(`api/list/near?about=${row}`).then((answer) => answer.json()) };
      try {
        const { rows, why } = await near.rows;
        if (state.picked === row && !marked.size) { tiles.show(why ? [row] : rows.slice(0, 60)); if (why) note.textContent = why; }
      } catch (error) { if (state.picked === row) note.textContent = error.message; }  // answers may overtake each other
    }
    redraw();
  };
  const within = (shape, x, y) => {
    let inside = false;
    for (let at = 0, before = shape.length - 1; at < shape.length; before = at, at += 1) {
      const [ax, ay] = shape[at], [bx, by] = shape[before];
      if ((ay > y) !== (by > y) && x < (bx - ax) * (y - ay) / (by - ay) + ax) inside = !inside;
    }
    return inside;
  };
  const many = () => (marked.size ? `${marked.size.toLocaleString("en")} pictures chosen: a class goes to all of them.` : NOTHING);
  const gather = (rows) => {
    for (const row of rows) if (!(app.spread && app.spread.flags[row] & app.flags.given)) marked.add(row);  // what was answered stays
    chosen = [...marked];
    note.textContent = many();
    canvas.dataset.chosen = chosen.length;
    tiles.show(chosen);
    redraw();
  };
  const leaveOut = (row) => { marked.delete(row); gather([]); };
  const takeIn = async (row) => {  // what is nearest, once that is known
    try {
      const { rows } = await near.rows;
      if (state.picked === row) gather(rows.slice(0, Math.max(11, 2 * marked.size)));
    } catch { /* told by pick */ }
  };
  const choose = (shape) => {
    const rows = [];
    for (let row = 0; row < count(); row += 1) if (within(shape, ...onScreen(row))) rows.push(row);
    state.picked = -1;
    marked.clear();
    gather(rows);
  };
  find("map-lasso").addEventListener("click", (event) => {
    state.isLasso = !state.isLasso;
    event.target.setAttribute("aria-pressed", String(state.isLasso));
    event.target.textContent = state.isLasso ? "lasso" : "move";
  });
  let drag = null;
  canvas.addEventListener("pointerdown", (event) => { if (!event.isPrimary || event.button) return; if (event.isTrusted && canvas.setPointerCapture) try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ } drag = { from: spot(event), x: state.x, y: state.y, path: [spot(event)] }; });
  canvas.addEventListener("pointermove", (event) => {
    if (!event.isPrimary) return;
    const [x, y] = spot(event);
    if (drag && Math.hypot(x - drag.from[0], y - drag.from[1]) > 4) drag.moved = true;
    if (drag && drag.moved && state.isLasso) { drag.path.push([x, y]); state.lasso = drag.path; hover(-1); redraw(); }
    else if (drag && drag.moved) moveTo(drag, x, y);
    else if (event.pointerType !== "touch") hover(nearestTo(x, y, 14));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (!event.isPrimary) return;
    if (drag && drag.moved && state.lasso) choose(state.lasso);
    else if (drag && !drag.moved) pick(nearestTo(...spot(event), event.pointerType === "touch" ? 26 : 14));
    state.lasso = drag = null;
    redraw();
  });
  canvas.addEventListener("pointercancel", () => { state.lasso = drag = null; redraw(); });
  canvas.addEventListener("pointerleave", () => { if (!drag) hover(-1); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomBy(Math.exp(-event.deltaY / 300), ...spot(event)); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    if (!places) return;
    const { picked } = state;
    walks = true;
    if (event.key === "Enter" && picked >= 0) app.modes.review.near(picked);
    else if ((event.key === "m" || event.key === " ") && picked >= 0) marked.has(picked) ? leaveOut(picked) : gather([picked]);
    else if (event.key === "*" && picked >= 0 && near.row === picked) takeIn(picked);
    else if (!press(event.key)) { walks = false; return; }
    else if (event.shiftKey && state.picked >= 0) gather([picked, state.picked].filter((row) => row >= 0));
    walks = false;
    event.preventDefault();
    event.stopPropagation();
  });

  app.modes.map = {
    enter: () => { load(); redraw(); canvas.focus({ preventScroll: true }); if (!chosen.length) note.textContent = places ? NOTHING : "The map is being made …"; },
    give: async (label) => {
      if (chosen.length) return app.answer(chosen, label, "map", chosen.map(app.hadOf));
      app.say("Choose pictures first: draw around them, or walk to one with the arrow keys.", true);
      return false;
    },
    skip: async () => {},
    key: () => false,
  };
  eigenview.redraws.push(redraw);
  app.listeners.push((what) => { if (what === "spread" && app.mode === "map") { load(); redraw(); tiles.redraw(); } });
}
