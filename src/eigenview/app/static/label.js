"use strict";
// What all modes share: how things stand, how to ask for something to be done, what is said about it.
const app = { state: null, spread: null, names: [], mode: "ask", modes: {}, busy: false, listeners: [] };
{
  const find = (id) => document.getElementById(id);
  const NO_CLASS = 65535;
  app.find = find;
  app.flags = { given: 1, before: 2, struck: 4, skipped: 8 };

  app.say = (text, isBad = false) => {
    find("said").textContent = text;
    find("said").classList.toggle("bad", isBad);
  };
  app.gone = (isGone) => {
    find("gone").hidden = !isGone;
    if (isGone) find("gone").textContent = "The server does not answer. What was said to be saved is on disk: start it again with the same command, and open the address that it prints.";
  };

  const request = async (path, options) => {
    let answer;
    try { answer = await fetch(path, { credentials: "same-origin", cache: "no-store", ...options }); } catch (error) { app.gone(true); app.watch(); throw error; }
    if (answer.status === 403 || answer.status === 421) { app.gone(true); throw new Error("refused"); }
    app.gone(false);
    return answer;
  };
  app.get = async (path) => {
    const answer = await request(path);
    if (!answer.ok) throw new Error((await answer.json()).error || answer.statusText);
    return answer;
  };
  let watching = false;
  app.watch = () => {  // until the server is back
    if (watching) return;
    watching = true;
    const again = async () => {
      try {
        const answer = await fetch("/api/state", { cache: "no-store" });
        if (answer.ok) { watching = false; app.gone(false); app.stand(await answer.json()); return; }
      } catch { /* not yet */ }
      setTimeout(again, 1500);
    };
    setTimeout(again, 1500);
  };

  // A deed: sent, written to disk there, and only then told. While one is under way no other is taken.
  app.act = async (what, ask, said) => {
    if (app.busy) return false;
    app.busy = true;
    try {
      const answer = await request(`/api/${what}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(ask) });
      const content = await answer.json();
      if (answer.status === 409) {
        app.stand(await (await app.get("/api/state")).json());
        app.say(content.error, true);
        return false;
      }
      if (!answer.ok) { app.say(`Not saved: ${content.error}`, true); return false; }
      if (what !== "export") { app.stand(content); app.say(said); }
      return content;
    } catch (error) {
      app.say(`Not saved: ${error.message}`, true);
      return false;
    } finally { app.busy = false; }
  };
  app.labelOf = (row) => (app.spread && app.spread.best[row] !== NO_CLASS ? app.spread.classes[app.spread.best[row]] : "");
  app.isKnown = (row) => Boolean(app.spread && app.spread.flags[row] & (app.flags.given | app.flags.before) && !(app.spread.flags[row] & app.flags.struck));
  app.sureness = (row) => (app.spread ? app.spread.shares[row] / 255 : 0);
  app.hadOf = (row) => (app.isKnown(row) ? app.labelOf(row) : "");
  app.numberOf = (name) => app.state.classes.findIndex((kind) => kind.name === name);
  app.nameOf = (row) => app.names[row] || `picture ${row}`;
  app.small = (row) => `/small/${row}?of=${app.state.pictures}`;
  app.large = (row) => `/large/${row}?of=${app.state.pictures}`;
  app.answer = (rows, label, mode, had) => app.act("answer", { rows, label, mode, ...(had ? { had } : {}) },
    `Saved: ${rows.length === 1 ? app.nameOf(rows[0]) : `${rows.length.toLocaleString("en")} pictures`} – ${label}`);

  app.picture = (address, row) => {
    const image = document.createElement("img");
    image.alt = app.nameOf(row);
    image.decoding = "async";
    image.addEventListener("load", () => image.classList.toggle("tiny", Math.max(image.naturalWidth, image.naturalHeight) < 100));
    if (address) image.src = address;
    return image;
  };
  const marks = new Map();  // drawn once each: a canvas for every tile makes scrolling slow
  app.mark = (name) => {
    const image = document.createElement("img"), number = app.numberOf(name), key = `${number} ${eigenview.isDark()}`;
    if (!marks.has(key)) {
      const small = document.createElement("canvas"), pen = small.getContext("2d");
      small.width = small.height = 28;
      if (number >= 0) {
        pen.fillStyle = eigenview.groupColour(number);
        eigenview.shapePath(pen, number, 14, 14, 10);
        pen.fill();
      }
      marks.set(key, small.toDataURL());
    }
    image.className = "sign";
    image.alt = "";
    image.src = marks.get(key);
    return image;
  };

  // Labels as they are spread after an answer: fetched when there are newer ones, one request at a time.
  let fetching = false;
  const unpacked = (buffer) => {
    const length = new DataView(buffer).getUint32(0, true), count = app.state.images;
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const from = 4 + length;
    return { turn: head.turn, classes: head.classes, best: new Uint16Array(buffer, from, count), shares: new Uint8Array(buffer, from + 2 * count, count), flags: new Uint8Array(buffer, from + 3 * count, count) };
  };
  app.follow = async () => {
    if (fetching) return;
    fetching = true;
    try {
      do {
        const wanted = app.state.turn;
        const buffer = await (await app.get(`/api/spread?turn=${wanted}`)).arrayBuffer();
        app.spread = unpacked(buffer);
        document.body.dataset.spread = app.spread.turn;
        app.tell("spread");
      } while (app.spread.turn < app.state.turn);
    } catch { setTimeout(app.follow, 2000); } finally { fetching = false; }
  };
  let foreseeing = false;
  const foresee = async () => {  // what is asked next, once it is chosen by all answers: its picture is fetched ahead
    if (foreseeing) return;
    foreseeing = true;
    try {
      while (app.state.doing) {
        const newer = await (await app.get(`/api/questions${app.state.queue.length ? "?newest" : ""}`)).json();
        if (newer.turn >= app.state.turn) { app.state = newer; app.tell("state"); }
      }
    } catch { /* told already */ } finally { foreseeing = false; }
  };
  app.tell = (what) => app.listeners.forEach((listener) => listener(what));

  app.stand = (state) => {
    app.state = state;
    document.body.dataset.turn = state.turn;
    app.tell("state");
    app.follow();
    foresee();
  };
}
