"use strict";
// A grid of pictures of any length: only what is in sight exists, and only that is loaded.
app.grid = (box, { size = 150, onOpen, onMark, marks = () => new Set(), note = () => "" }) => {
  const space = document.createElement("div"), shown = new Map();
  let rows = [], here = 0, columns = 1, side = size, tall = size + 26, width = 0, isStale = true, top = 0, later = 0;
  space.className = "space";
  box.append(space);
  box.tabIndex = 0;
  box.setAttribute("role", "listbox");
  box.setAttribute("aria-multiselectable", "true");
  const load = () => { for (const tile of shown.values()) { const image = tile.firstChild.firstChild; if (!image.src) image.src = app.small(Number(tile.dataset.row)); } };
  const fill = (tile, place) => {
    const row = rows[place], inner = tile.firstChild, label = app.labelOf(row), isKnown = app.isKnown(row);
    if (tile.dataset.row !== String(row)) {
      tile.dataset.row = row;
      const what = document.createElement("div");
      what.className = "what";
      inner.replaceChildren(app.picture("", row), what);
    }
    tile.title = app.nameOf(row);
    tile.id = `${box.id}-${place}`;
    const what = inner.lastChild, text = document.createElement("span"), sure = document.createElement("span");
    text.textContent = note(row) || label || app.nameOf(row);
    sure.className = "sure";
    sure.textContent = label && !isKnown ? `${Math.round(100 * app.sureness(row))} %` : "";
    what.replaceChildren(...(label ? [app.mark(label)] : []), text, sure);
    tile.classList.toggle("noted", Boolean(note(row)));
    tile.classList.toggle("given", isKnown);
    tile.classList.toggle("here", place === here && document.activeElement === box);
    tile.classList.toggle("marked", marks().has(row));
    tile.setAttribute("aria-selected", String(marks().has(row)));
    tile.setAttribute("aria-label", `${app.nameOf(row)}, ${label || "no label"}`);
  };
  const draw = () => {
    if (!width) return;
    const from = box.scrollTop, isFar = Math.abs(from - top) > box.clientHeight;  // passing by: pictures wait until it rests
    top = from;
    const first = Math.max(0, Math.floor(from / tall) - 1) * columns;
    const last = Math.min(rows.length, (Math.ceil((from + box.clientHeight) / tall) + 1) * columns);
    for (const [place, tile] of shown) if (place < first || place >= last) { tile.firstChild.firstChild.removeAttribute("src"); tile.remove(); shown.delete(place); }  // nor loaded any more
    for (let place = first; place < last; place += 1) {
      let tile = shown.get(place);
      if (!tile) {
        tile = document.createElement("div");
        tile.className = "tile";
        tile.setAttribute("role", "option");
        tile.append(document.createElement("div"));
        tile.addEventListener("click", () => { here = place; box.focus({ preventScroll: true }); onMark ? onMark(rows[place]) : onOpen(rows[place]); redraw(); });
        tile.addEventListener("dblclick", () => onOpen(rows[place]));
        shown.set(place, tile);
        space.append(tile);
      } else if (!isStale) continue;
      tile.style.left = `${(place % columns) * side}px`;
      tile.style.top = `${Math.floor(place / columns) * tall}px`;
      tile.style.width = `${side}px`;
      tile.style.height = `${tall}px`;
      fill(tile, place);
    }
    isStale = false;
    clearTimeout(later);
    if (isFar) later = setTimeout(load, 120); else load();
    box.setAttribute("aria-activedescendant", rows.length ? `${box.id}-${here}` : "");
    box.dataset.shown = shown.size;
  };
  let waiting = false;
  const drawn = () => { if (!waiting) { waiting = true; requestAnimationFrame(() => { waiting = false; draw(); }); } };
  const redraw = () => {  // all that is in sight, not only what came into it
    width = box.clientWidth;
    columns = Math.max(3, Math.floor(width / size));
    side = width / columns;
    tall = side + 26;
    space.style.height = `${Math.ceil(rows.length / columns) * tall}px`;
    isStale = true;
    drawn();
  };
  const go = (place) => {
    if (!rows.length) return;
    here = Math.max(0, Math.min(rows.length - 1, place));
    const top = Math.floor(here / columns) * tall;
    if (top < box.scrollTop) box.scrollTop = top;
    if (top + tall > box.scrollTop + box.clientHeight) box.scrollTop = top + tall - box.clientHeight;
    redraw();
  };
  box.addEventListener("scroll", drawn, { passive: true });
  box.addEventListener("focus", redraw);
  box.addEventListener("blur", redraw);
  box.addEventListener("keydown", (event) => {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns, PageDown: 5 * columns, PageUp: -5 * columns, Home: -rows.length, End: rows.length };
    if (event.key in steps) go(here + steps[event.key]);
    else if (event.key === "Enter" && rows.length) onOpen(rows[here]);
    else if ((event.key === " " || event.key === "m") && onMark && rows.length) { onMark(rows[here]); go(here + 1); } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  new ResizeObserver(redraw).observe(box);
  eigenview.redraws.push(redraw);
  return {
    show: (list, keeps = false) => {  // keeps: the place in the list, and what is in sight of it
      if (list !== rows && !keeps) { here = 0; box.scrollTop = 0; for (const tile of shown.values()) tile.remove(); shown.clear(); }
      rows = list;
      here = Math.max(0, Math.min(rows.length - 1, here));
      redraw();
    },
    redraw, go, here: () => rows[here], rows: () => rows, place: () => here, focus: () => box.focus(),
  };
};
