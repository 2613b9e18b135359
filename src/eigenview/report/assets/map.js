"use strict";
// The map: thousands of dots on a plain canvas, so that it needs no graphics card and follows the theme.
if (eigenview.data.map) {
  const { data: { map }, colour, isDark, groupColour, shapePath, extentOf, plane } = eigenview;
  const find = (id) => document.getElementById(id);
  const canvas = find("map-canvas"), pen = canvas.getContext("2d"), selectedBox = find("map-selected");
  const unpack = (text, Kind) => { const raw = atob(text); return new Kind(Uint8Array.from(raw, (one) => one.charCodeAt(0)).buffer); };
  const places = map.maps.map((one) => unpack(one.places, Uint16Array));
  const groups = map.colourings.map((one) => unpack(one.of, Uint16Array));
  const neighbours = unpack(map.neighbours, Uint32Array);
  const state = { projection: 0, colouring: 0, zoom: 1, x: .5, y: .5, hover: -1, picked: -1, hidden: new Set(), wanted: "" };
  const visible = new Uint8Array(map.count);
  const extents = places.map(extentOf);
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

  const ring = (point, width) => {
    const [x, y] = onScreen(point);
    pen.strokeStyle = colour("ink"); pen.lineWidth = width;
    pen.beginPath(); pen.arc(x, y, radius + 4, 0, 2 * Math.PI); pen.stroke();
  };
  const draw = () => {
    const started = performance.now(), ratio = fit(extents[state.projection]);
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
  const { view, redraw, fit, onScreen, nearestTo, hover, zoomBy, middle, moveTo, spot, press } = plane({
    canvas,
    state,
    count: () => map.count,
    places: () => places[state.projection],
    isShown: (point) => visible[point],
    fill: (point) => [picture(point), words(point)],
    pick: (point) => pick(point),
    draw: () => draw(),
    zoomed: () => { canvas.style.touchAction = state.zoom > 1 ? "none" : "pan-y"; },
  });

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
  canvas.addEventListener("pointerdown", (event) => { drag = { from: spot(event), x: state.x, y: state.y, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (drag && Math.hypot(x - drag.from[0], y - drag.from[1]) > 4) drag.moved = true;
    if (drag && drag.moved && state.zoom > 1) moveTo(drag, x, y);
    else if (event.pointerType !== "touch") hover(nearestTo(x, y, 14));
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
  canvas.addEventListener("keydown", (event) => { if (press(event.key)) event.preventDefault(); });

  find("map-note").textContent = `${map.maps[0].name}: ${map.maps[0].note}.`;
  eigenview.redraws.push(() => { legend(); redraw(); });
  hideAll(false);
  pick(-1);
}
