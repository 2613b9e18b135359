"use strict";
// The map: every picture a dot, coloured by its class and strong where that is sure; a lasso gives many one label.
{
  const { find } = app, canvas = find("map-canvas"), pen = canvas.getContext("2d"), tip = find("map-tip"), note = find("map-note");
  const NOTHING = "Nothing is chosen.";
  const LEVELS = 4, state = { zoom: 1, x: .5, y: .5, hover: -1, picked: -1, lasso: null, isLasso: true };
  let places = null, chosen = [], view = { width: 0, height: 0, scale: 1 }, loading = false, extent = [1, 1];
  const tiles = app.grid(find("map-tiles"), { size: 92, onOpen: (row) => pick(row) });

  const load = async () => {
    if (places || loading) return;
    loading = true;
    try {
      while (!app.state.has_map) {
        note.textContent = app.state.problem || "The map is being made …";
        await new Promise((done) => { setTimeout(done, 1000); });
        app.stand(await (await app.get("/api/state")).json());
      }
      places = new Uint16Array(await (await app.get("/api/map")).arrayBuffer());
      const low = [65535, 65535], high = [0, 0];
      for (let at = 0; at < places.length; at += 1) { low[at % 2] = Math.min(low[at % 2], places[at]); high[at % 2] = Math.max(high[at % 2], places[at]); }
      extent = [0, 1].map((axis) => Math.max(.05, (high[axis] - low[axis]) / 65535));
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
  const onScreen = (row) => [view.width / 2 + (places[2 * row] / 65535 - state.x) * view.scale, view.height / 2 - (places[2 * row + 1] / 65535 - state.y) * view.scale];
  const ring = (row, width, colour = "ink") => {
    const [x, y] = onScreen(row);
    pen.strokeStyle = eigenview.colour(colour); pen.lineWidth = width;
    pen.beginPath(); pen.arc(x, y, radius() + 4, 0, 2 * Math.PI); pen.stroke();
  };
  const draw = () => {
    if (app.mode !== "map" || !places) return;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = canvas.clientHeight, started = performance.now();
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    view = { width, height, scale: Math.min((width - 40) / extent[0], (height - 40) / extent[1]) * state.zoom };
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
  let waiting = false;
  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; find("map").classList.toggle("plain", !chosen.length); draw(); }); } };

  const nearestTo = (x, y, reach) => {
    let best = -1, distance = reach * reach;
    if (places) for (let row = 0; row < count(); row += 1) {
      const [px, py] = onScreen(row), d = (px - x) ** 2 + (py - y) ** 2;
      if (d < distance) { distance = d; best = row; }
    }
    return best;
  };
  const hover = (row) => {
    if (row === state.hover) return;
    state.hover = row;
    tip.hidden = row < 0;
    if (row >= 0) {
      const words = document.createElement("div"), name = document.createElement("b"), more = document.createElement("span");
      name.textContent = app.nameOf(row);
      more.className = "note";
      more.textContent = app.labelOf(row) ? `${app.labelOf(row)}${app.isKnown(row) ? ", labelled" : `, ${Math.round(100 * app.sureness(row))} %`}` : "no label yet";
      words.append(name, more);
      tip.replaceChildren(app.picture(app.small(row), row), words);
      const [x, y] = onScreen(row), box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(view.width - box.width - 4, x + 14 + box.width > view.width ? x - box.width - 14 : x + 14))}px`;
      tip.style.top = `${Math.max(4, Math.min(view.height - box.height - 4, y - box.height / 2))}px`;
    }
    redraw();
  };
  const pick = async (row) => {
    state.picked = row;
    chosen = row < 0 ? [] : [row];
    if (row < 0) { tiles.show([]); note.textContent = NOTHING; } else {
      note.textContent = `${app.nameOf(row)}: a class goes to this picture; its neighbours:`;
      tiles.show([row]);
      try {
        const { rows } = await (await app.get(`/api/list/near?about=${row}`)).json();
        if (state.picked === row) tiles.show(rows.slice(0, 60));
      } catch (error) { note.textContent = error.message; }
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
  const choose = (shape) => {
    chosen = [];
    state.picked = -1;
    for (let row = 0; row < count(); row += 1) if (!(app.spread && app.spread.flags[row] & app.flags.given) && within(shape, ...onScreen(row))) chosen.push(row);  // what was answered stays
    note.textContent = chosen.length ? `${chosen.length.toLocaleString("en")} pictures chosen: a class goes to all of them.` : NOTHING;
    canvas.dataset.chosen = chosen.length;
    tiles.show(chosen);
    redraw();
  };
  const zoomBy = (factor, x, y) => {
    const zoom = Math.max(1, Math.min(60, state.zoom * factor)), grows = zoom / state.zoom;
    const across = (x - view.width / 2) / view.scale, down = (y - view.height / 2) / view.scale;
    state.x += across - across / grows;
    state.y -= down - down / grows;
    state.zoom = zoom;
    if (zoom === 1) { state.x = .5; state.y = .5; }
    hover(-1);
    redraw();
  };
  const middle = (factor) => zoomBy(factor, view.width / 2, view.height / 2);
  find("map-in").addEventListener("click", () => middle(1.6));
  find("map-out").addEventListener("click", () => middle(1 / 1.6));
  find("map-reset").addEventListener("click", () => middle(1e-9));
  find("map-lasso").addEventListener("click", (event) => {
    state.isLasso = !state.isLasso;
    event.target.setAttribute("aria-pressed", String(state.isLasso));
    event.target.textContent = state.isLasso ? "lasso" : "move";
  });
  let drag = null;
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { if (event.isTrusted && canvas.setPointerCapture) try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone */ } drag = { from: spot(event), x: state.x, y: state.y, path: [spot(event)] }; });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (drag && Math.hypot(x - drag.from[0], y - drag.from[1]) > 4) drag.moved = true;
    if (drag && drag.moved && state.isLasso) { drag.path.push([x, y]); state.lasso = drag.path; hover(-1); redraw(); }
    else if (drag && drag.moved) { state.x = drag.x - (x - drag.from[0]) / view.scale; state.y = drag.y + (y - drag.from[1]) / view.scale; hover(-1); redraw(); }
    else if (event.pointerType !== "touch") hover(nearestTo(x, y, 14));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && drag.moved && state.lasso) choose(state.lasso);
    else if (drag && !drag.moved) pick(nearestTo(...spot(event), event.pointerType === "touch" ? 26 : 14));
    state.lasso = drag = null;
    redraw();
  });
  canvas.addEventListener("pointerleave", () => { if (!drag) hover(-1); });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoomBy(Math.exp(-event.deltaY / 300), ...spot(event)); }, { passive: false });
  const walk = (dx, dy) => {
    if (state.picked < 0) { pick(nearestTo(view.width / 2, view.height / 2, Infinity)); return; }
    const from = onScreen(state.picked);
    let best = -1, cost = Infinity;
    for (let row = 0; row < count(); row += 1) {
      if (row === state.picked) continue;
      const [x, y] = onScreen(row), along = (x - from[0]) * dx + (y - from[1]) * dy, across = Math.abs((x - from[0]) * dy) + Math.abs((y - from[1]) * dx);
      if (along > 0 && along + 2 * across < cost) { cost = along + 2 * across; best = row; }
    }
    if (best >= 0) pick(best);
  };
  const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (!places) return;
    if (keys[event.key]) walk(...keys[event.key]);
    else if (event.key === "+" || event.key === "=") middle(1.6);
    else if (event.key === "-") middle(1 / 1.6);
    else if (event.key === "Escape") { hover(-1); pick(-1); }
    else if (event.key === "Enter" && state.picked >= 0) app.modes.review.near(state.picked);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });

  app.modes.map = {
    enter: () => { load(); redraw(); canvas.focus({ preventScroll: true }); if (!chosen.length) note.textContent = places ? NOTHING : "The map is being made …"; },
    targets: () => chosen,
    give: async (label) => { if (chosen.length) await app.answer(chosen, label, "map", chosen.map(app.hadOf)); },
    skip: async () => {},
    key: () => false,
  };
  new ResizeObserver(redraw).observe(canvas);
  eigenview.redraws.push(redraw);
  app.listeners.push((what) => { if (what === "spread" && app.mode === "map") { load(); redraw(); tiles.redraw(); } });
}
