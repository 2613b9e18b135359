"use strict";
// The map: thousands of dots on a plain canvas, so that it needs no graphics card and follows the theme.
if (eigenview.data.map) {
  const { data: { map }, colour, isDark, groupColour, shapePath } = eigenview;
  const find = (id) => document.getElementById(id);
  const canvas = find("map-canvas"), pen = canvas.getContext("2d"), tip = find("map-tip"), selectedBox = find("map-selected");
  const unpack = (text, Kind) => { const raw = atob(text); return new Kind(Uint8Array.from(raw, (one) => one.charCodeAt(0)).buffer); };
  const places = map.maps.map((one) => unpack(one.places, Uint16Array));
  const groups = map.colourings.map((one) => unpack(one.of, Uint16Array));
  const neighbours = unpack(map.neighbours, Uint32Array);
  const state = { projection: 0, colouring: 0, zoom: 1, x: .5, y: .5, hover: -1, picked: -1, hidden: new Set(), wanted: "" };
  const visible = new Uint8Array(map.count);
  const extents = places.map((at) => {  // of each plane: the map fills the stage, whatever its shape
    const low = [65535, 65535], high = [0, 0];
    for (let one = 0; one < at.length; one += 1) {
      low[one % 2] = Math.min(low[one % 2], at[one]);
      high[one % 2] = Math.max(high[one % 2], at[one]);
    }
    return [0, 1].map((axis) => Math.max(.05, (high[axis] - low[axis]) / 65535));
  });
  const radius = map.count > 8000 ? 2 : map.count > 2500 ? 2.6 : 3.4;

  const stamps = new Map();  // a drawn dot for each colour and shape: copying one is far quicker than drawing one
  const stamp = (number, ratio) => {
    const key = `${number % 40} ${isDark()} ${ratio}`;
    if (!stamps.has(key)) {
      const small = document.createElement("canvas"), size = Math.ceil((radius * 2.6 + 2) * ratio);
      small.width = small.height = size;
      const ctx = small.getContext("2d");
      ctx.fillStyle = groupColour(number);
      shapePath(ctx, number, size / 2, size / 2, radius * ratio);
      ctx.fill();
      stamps.set(key, small);
    }
    return stamps.get(key);
  };

  let view = { width: 0, height: 0, scale: 1 };
  const onScreen = (point) => {
    const at = places[state.projection];
    return [view.width / 2 + (at[2 * point] / 65535 - state.x) * view.scale, view.height / 2 - (at[2 * point + 1] / 65535 - state.y) * view.scale];
  };
  const ring = (point, width) => {
    const [x, y] = onScreen(point);
    pen.strokeStyle = colour("ink"); pen.lineWidth = width;
    pen.beginPath(); pen.arc(x, y, radius + 4, 0, 2 * Math.PI); pen.stroke();
  };
  const draw = () => {
    const started = performance.now(), ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
    }
    view = { width, height, scale: Math.min((width - 40) / extents[state.projection][0], (height - 40) / extents[state.projection][1]) * state.zoom };
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const of = groups[state.colouring], at = places[state.projection];
    const kinds = map.colourings[state.colouring].groups.map((_, number) => stamp(number, ratio));
    const half = kinds.length ? kinds[0].width / 2 : 0, scale = view.scale * ratio;
    const left = canvas.width / 2 - half - state.x * scale, top = canvas.height / 2 - half + state.y * scale;
    pen.globalAlpha = .85;
    let drawn = 0;
    for (let point = 0; point < map.count; point += 1) {
      if (!visible[point]) continue;
      drawn += 1;
      pen.drawImage(kinds[of[point]], left + at[2 * point] / 65535 * scale, top - at[2 * point + 1] / 65535 * scale);
    }
    pen.globalAlpha = 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    if (state.picked >= 0) {
      for (let k = 0; k < map.width; k += 1) ring(neighbours[state.picked * map.width + k], 1);
      ring(state.picked, 2.5);
    }
    if (state.hover >= 0) ring(state.hover, 2);
    canvas.dataset.drawn = drawn;
    canvas.dataset.milliseconds = (performance.now() - started).toFixed(1);
  };
  let waiting = false;
  const redraw = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  };

  const labelOf = (point) => map.colourings.map((one, number) => one.groups[groups[number][point]]).join(" · ");
  const picture = (point, extra) => {
    const { columns, rows } = map.sheet, per = columns * rows, place = point % per;
    const span = document.createElement("span");
    span.className = `thumb sheet${Math.floor(point / per)} ${extra || ""}`.trim();
    span.style.setProperty("--column", place % columns);
    span.style.setProperty("--row", Math.floor(place / columns));
    span.setAttribute("role", "img");
    span.setAttribute("aria-label", `${map.names[point]}, ${labelOf(point)}`);
    span.title = map.names[point];
    return span;
  };
  const words = (point) => {
    const box = document.createElement("div"), name = document.createElement("b"), more = document.createElement("span");
    name.textContent = map.names[point];
    more.textContent = labelOf(point);
    more.className = "note";
    box.append(name, more);
    return box;
  };
  const hover = (point) => {
    if (point === state.hover) return;
    state.hover = point;
    tip.hidden = point < 0;
    if (point >= 0) {
      tip.replaceChildren(picture(point), words(point));
      tip.dataset.point = point;
      const [x, y] = onScreen(point), box = tip.getBoundingClientRect();
      tip.style.left = `${Math.max(4, Math.min(view.width - box.width - 4, x + 14 + box.width > view.width ? x - box.width - 14 : x + 14))}px`;
      tip.style.top = `${Math.max(4, Math.min(view.height - box.height - 4, y - box.height / 2))}px`;
    }
    redraw();
  };
  const pick = (point) => {
    state.picked = point;
    if (point < 0) {
      const hint = document.createElement("p");
      hint.className = "note";
      hint.textContent = "Nothing selected. Click a dot, or press an arrow key on the map.";
      selectedBox.replaceChildren(hint);
    } else {
      const near = document.createElement("div"), said = document.createElement("span");
      near.className = "strip";
      said.className = "note";
      said.textContent = "Its nearest neighbours:";
      for (let k = 0; k < map.width; k += 1) near.append(picture(neighbours[point * map.width + k]));
      selectedBox.replaceChildren(picture(point, "big"), words(point), said, near);
    }
    redraw();
  };
  const nearestTo = (x, y, reach) => {
    let best = -1, distance = reach * reach;
    for (let point = 0; point < map.count; point += 1) {
      if (!visible[point]) continue;
      const [px, py] = onScreen(point), d = (px - x) ** 2 + (py - y) ** 2;
      if (d < distance) { distance = d; best = point; }
    }
    return best;
  };

  const applyFilter = () => {
    const of = groups[state.colouring], wanted = state.wanted.toLowerCase();
    let shown = 0;
    for (let point = 0; point < map.count; point += 1) {
      const matches = !wanted || map.names[point].toLowerCase().includes(wanted) || labelOf(point).toLowerCase().includes(wanted);
      visible[point] = matches && !state.hidden.has(of[point]) ? 1 : 0;
      shown += visible[point];
    }
    find("map-shown").textContent = `${shown.toLocaleString("en")} of ${map.count.toLocaleString("en")} shown`;
    if (state.hover >= 0 && !visible[state.hover]) hover(-1);
    redraw();
  };
  const legend = () => {
    const chosen = map.colourings[state.colouring];
    find("map-legend").replaceChildren(...chosen.groups.map((name, number) => {
      const button = document.createElement("button"), mark = document.createElement("canvas");
      const text = document.createElement("span"), count = document.createElement("span");
      mark.width = mark.height = 28;
      const ctx = mark.getContext("2d");
      ctx.fillStyle = groupColour(number);
      shapePath(ctx, number, 14, 14, 9);
      ctx.fill();
      text.textContent = name;
      count.textContent = chosen.counts[number].toLocaleString("en");
      count.className = "note";
      button.type = "button";
      button.setAttribute("aria-pressed", String(!state.hidden.has(number)));
      button.append(mark, text, count);
      button.addEventListener("click", () => {
        if (!state.hidden.delete(number)) state.hidden.add(number);
        button.setAttribute("aria-pressed", String(!state.hidden.has(number)));
        applyFilter();
      });
      return button;
    }));
  };
  const hideAll = (hides) => {
    state.hidden = new Set(hides ? map.colourings[state.colouring].groups.map((_, number) => number) : []);
    legend();
    applyFilter();
  };

  const zoomBy = (factor, x, y) => {
    const zoom = Math.max(1, Math.min(60, state.zoom * factor)), grows = zoom / state.zoom;
    const across = (x - view.width / 2) / view.scale, down = (y - view.height / 2) / view.scale;
    state.x += across - across / grows;
    state.y -= down - down / grows;
    state.zoom = zoom;
    if (zoom === 1) { state.x = .5; state.y = .5; }
    canvas.style.touchAction = zoom > 1 ? "none" : "pan-y";
    hover(-1);
    redraw();
  };
  const middle = (factor) => zoomBy(factor, view.width / 2, view.height / 2);
  find("map-in").addEventListener("click", () => middle(1.6));
  find("map-out").addEventListener("click", () => middle(1 / 1.6));
  find("map-reset").addEventListener("click", () => middle(1e-9));
  find("map-all").addEventListener("click", () => hideAll(false));
  find("map-none").addEventListener("click", () => hideAll(true));
  find("map-find").addEventListener("input", (event) => { state.wanted = event.target.value.trim(); applyFilter(); });
  document.querySelectorAll("input[name=projection]").forEach((radio) => radio.addEventListener("change", () => {
    state.projection = Number(radio.value);
    find("map-note").textContent = `${map.maps[state.projection].name}: ${map.maps[state.projection].note}.`;
    middle(1e-9);
  }));
  map.colourings.forEach((one, number) => {
    const label = document.createElement("label"), radio = document.createElement("input"), text = document.createElement("span");
    radio.type = "radio"; radio.name = "colouring"; radio.value = number; radio.checked = number === 0;
    text.textContent = one.name;
    label.append(radio, text);
    radio.addEventListener("change", () => { state.colouring = number; hideAll(false); });
    find("colourings").append(label);
  });

  let drag = null;
  const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
  canvas.addEventListener("pointerdown", (event) => { drag = { from: spot(event), x: state.x, y: state.y, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (drag && Math.hypot(x - drag.from[0], y - drag.from[1]) > 4) drag.moved = true;
    if (drag && drag.moved && state.zoom > 1) {
      state.x = drag.x - (x - drag.from[0]) / view.scale;
      state.y = drag.y + (y - drag.from[1]) / view.scale;
      hover(-1);
      redraw();
    } else if (event.pointerType !== "touch") hover(nearestTo(x, y, 14));
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const point = nearestTo(...spot(event), event.pointerType === "touch" ? 26 : 14);
      pick(point);
      if (event.pointerType === "touch") hover(point);
    }
    drag = null;
  });
  canvas.addEventListener("pointerleave", () => { drag = null; hover(-1); });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY / 300), ...spot(event));
  }, { passive: false });
  const walk = (dx, dy) => {
    const from = state.picked >= 0 ? onScreen(state.picked) : [view.width / 2, view.height / 2];
    if (state.picked < 0) return pick(nearestTo(...from, Infinity));
    let best = -1, cost = Infinity;
    for (let point = 0; point < map.count; point += 1) {
      if (!visible[point] || point === state.picked) continue;
      const [x, y] = onScreen(point), along = (x - from[0]) * dx + (y - from[1]) * dy, across = Math.abs((x - from[0]) * dy) + Math.abs((y - from[1]) * dx);
      if (along > 0 && along + 2 * across < cost) { cost = along + 2 * across; best = point; }
    }
    if (best >= 0) pick(best);
    return undefined;
  };
  const keys = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (keys[event.key]) walk(...keys[event.key]);
    else if (event.key === "+" || event.key === "=") middle(1.6);
    else if (event.key === "-") middle(1 / 1.6);
    else if (event.key === "Escape") { hover(-1); pick(-1); }
    else return;
    event.preventDefault();
  });

  find("map-note").textContent = `${map.maps[0].name}: ${map.maps[0].note}.`;
  new ResizeObserver(redraw).observe(canvas);
  eigenview.redraws.push(() => { legend(); redraw(); });
  hideAll(false);
  pick(-1);
}
