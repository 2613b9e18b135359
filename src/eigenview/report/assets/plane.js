"use strict";
// A plane of dots on a canvas, for every map: where a dot lies, the nearest one, zoom, the tip beside it, keys.
{
  const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  const find = (id) => document.getElementById(id);
  const extentOf = (places) => {  // the share of the plane that is used: the map fills the stage, whatever its shape
    const low = [65535, 65535], high = [0, 0];
    for (let at = 0; at < places.length; at += 1) {
      low[at % 2] = Math.min(low[at % 2], places[at]);
      high[at % 2] = Math.max(high[at % 2], places[at]);
    }
    return [0, 1].map((axis) => Math.max(.05, (high[axis] - low[axis]) / 65535));
  };
  // state: zoom, x, y, hover, picked; places(): the dots' places, or null while there are none; isShown(dot);
  // fill(dot): what the tip shows; pick(dot), draw(): the map's own.
  const plane = ({ canvas, state, count, places, fill, pick, draw, isShown = () => true, zoomed = () => {} }) => {
    const view = { width: 0, height: 0, scale: 1 }, tip = find("map-tip");
    let waiting = false;
    const redraw = () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => { waiting = false; draw(); });
    };
    const fit = (extent) => {
      const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio);
      }
      const pen = canvas.getContext("2d");
      pen.setTransform(1, 0, 0, 1, 0, 0);
      pen.clearRect(0, 0, canvas.width, canvas.height);
      Object.assign(view, { width, height, scale: Math.min((width - 40) / extent[0], (height - 40) / extent[1]) * state.zoom });
      return ratio;
    };
    const onScreen = (dot) => {
      const at = places();
      return [view.width / 2 + (at[2 * dot] / 65535 - state.x) * view.scale, view.height / 2 - (at[2 * dot + 1] / 65535 - state.y) * view.scale];
    };
    const nearestTo = (x, y, reach) => {
      let best = -1, distance = reach * reach;
      for (let dot = 0; places() && dot < count(); dot += 1) {
        if (!isShown(dot)) continue;
        const [px, py] = onScreen(dot), d = (px - x) ** 2 + (py - y) ** 2;
        if (d < distance) { distance = d; best = dot; }
      }
      return best;
    };
    const hover = (dot) => {
      if (dot === state.hover) return;
      state.hover = dot;
      tip.hidden = dot < 0;
      if (dot >= 0) {
        tip.replaceChildren(...fill(dot));
        tip.dataset.point = dot;
        const [x, y] = onScreen(dot), box = tip.getBoundingClientRect();
        tip.style.left = `${Math.max(4, Math.min(view.width - box.width - 4, x + 14 + box.width > view.width ? x - box.width - 14 : x + 14))}px`;
        tip.style.top = `${Math.max(4, Math.min(view.height - box.height - 4, y - box.height / 2))}px`;
      }
      redraw();
    };
    const zoomBy = (factor, x, y) => {
      const zoom = Math.max(1, Math.min(60, state.zoom * factor)), grows = zoom / state.zoom;
      const across = (x - view.width / 2) / view.scale, down = (y - view.height / 2) / view.scale;
      state.x += across - across / grows;
      state.y -= down - down / grows;
      state.zoom = zoom;
      if (zoom === 1) { state.x = .5; state.y = .5; }
      zoomed();
      hover(-1);
      redraw();
    };
    const middle = (factor) => zoomBy(factor, view.width / 2, view.height / 2);
    const moveTo = (from, x, y) => {
      state.x = from.x - (x - from.from[0]) / view.scale;
      state.y = from.y + (y - from.from[1]) / view.scale;
      hover(-1);
      redraw();
    };
    const spot = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    const walk = (dx, dy) => {
      if (state.picked < 0) { pick(nearestTo(view.width / 2, view.height / 2, Infinity)); return; }
      const from = onScreen(state.picked);
      let best = -1, cost = Infinity;
      for (let dot = 0; dot < count(); dot += 1) {
        if (!isShown(dot) || dot === state.picked) continue;
        const [x, y] = onScreen(dot), along = (x - from[0]) * dx + (y - from[1]) * dy, across = Math.abs((x - from[0]) * dy) + Math.abs((y - from[1]) * dx);
        if (along > 0 && along + 2 * across < cost) { cost = along + 2 * across; best = dot; }
      }
      if (best >= 0) pick(best);
    };
    const press = (key) => {  // whether the key means something here
      if (ARROWS[key]) walk(...ARROWS[key]);
      else if (key === "+" || key === "=") middle(1.6);
      else if (key === "-") middle(1 / 1.6);
      else if (key === "Escape") { hover(-1); pick(-1); } else return false;
      return true;
    };
    find("map-in").addEventListener("click", () => middle(1.6));
    find("map-out").addEventListener("click", () => middle(1 / 1.6));
    find("map-reset").addEventListener("click", () => middle(1e-9));
    new ResizeObserver(redraw).observe(canvas);
    return { view, redraw, fit, onScreen, nearestTo, hover, zoomBy, middle, moveTo, spot, press };
  };
  Object.assign(eigenview, { extentOf, plane });
}
