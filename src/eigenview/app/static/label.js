"use strict";
// What all modes share: how things stand, how to ask for something to be done, what is said about it.
const app = { state: null, spread: null, names: [], mode: "ask", modes: {}, busy: false, told: 0, listeners: [], shown: () => [] };
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
  // How things stand, and what became of the pictures that Ask shows.
  const about = () => `shown=${app.shown().join()}`;
  app.refresh = async () => app.stand(await (await app.get(`api/state?${about()}`)).json());
  let watching = false;
  app.watch = () => {  // until the server is back
    if (watching) return;
    watching = true;
    const again = async () => {
      try { await app.begin(); watching = false; } catch { setTimeout(again, 1500); }
    };
    setTimeout(again, 1500);
  };

  app.send = async (what, ask) => {
    const answer = await request(`api/${what}?${about()}`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(ask) });
    const isJSON = (answer.headers.get("content-type") || "").includes("json");
    return { answer, content: isJSON ? await answer.json() : { error: await answer.text() } };
  };
  // A deed: sent, written to disk there, and only then told. While one is under way no other is taken.
  app.act = async (what, ask, said) => {
    if (app.busy) return false;
    app.busy = true;
    const before = app.state.turn;
    try {
      const { answer, content } = await app.send(what, ask);
      if (answer.status === 409) {
        await app.refresh();
        app.say(content.error, true);
        return false;
      }
      if (!answer.ok) { app.say(`Not saved: ${content.error}`, true); return false; }
      if (content.turn === before + 1) remember(what, ask, content);
      app.stand(content);
      if (what === "undo") app.forget();
      app.say(said);
      return true;
    } catch (error) {
      app.say(`Not saved: ${error.message}`, true);
      return false;
    } finally { app.busy = false; document.body.dataset.told = app.told += 1; }
  };
  // What was said here counts at once: labels as they are spread, and what else is known, come later.
  const remember = (what, { rows, label }, { turn, classes }) => {
    const { spread, flags } = app, { given, struck, skipped } = flags;
    if (!spread || spread.now !== turn - 1 || what === "undo" || (what === "answer" && !classes.some(({ name }) => name === label))) return;
    if (what === "answer" && !spread.classes.includes(label)) spread.classes.push(label);
    for (const row of rows) {
      if (what === "skip") { spread.flags[row] |= skipped; continue; }
      spread.flags[row] = (spread.flags[row] & ~(given | struck | skipped)) | (what === "answer" ? given : struck);
      spread.best[row] = what === "answer" ? spread.classes.indexOf(label) : NO_CLASS;
      spread.shares[row] = what === "answer" ? 255 : 0;
    }
    spread.now = turn;
  };
  app.labelOf = (row) => (app.spread && app.spread.best[row] !== NO_CLASS ? app.spread.classes[app.spread.best[row]] : "");
  app.isKnown = (row) => Boolean(app.spread && app.spread.flags[row] & (app.flags.given | app.flags.before) && !(app.spread.flags[row] & app.flags.struck));
  app.sureness = (row) => (app.spread ? app.spread.shares[row] / 255 : 0);
  app.hadOf = (row) => (app.isKnown(row) ? app.labelOf(row) : "");
  app.numberOf = (name) => app.state.classes.findIndex((kind) => kind.name === name);
  app.nameOf = (row) => app.names[row] || `picture ${row}`;
  app.small = (row) => `small/${row}?of=${app.state.pictures}`;
  app.large = (row) => `large/${row}?of=${app.state.pictures}`;
  app.answer = (rows, label, mode, had) => app.act("answer", { rows, label, mode, had },
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

  // Labels as they are spread after an answer: fetched when there are newer ones, one request at a time. What is known is
  // that of turn `now`; where the page lags behind, it is fetched first, without waiting for labels to be spread.
  let fetching = false;
  const unpacked = (buffer) => {
    const length = new DataView(buffer).getUint32(0, true), count = app.state.images;
    const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
    const from = 4 + length;
    return { ...head, best: new Uint16Array(buffer, from, count), shares: new Uint8Array(buffer, from + 2 * count, count), flags: new Uint8Array(buffer, from + 3 * count, count) };
  };
  const isBehind = () => !app.spread || app.spread.now < app.state.turn;
  app.follow = async () => {
    if (fetching) return;
    fetching = true;
    try {
      while (isBehind() || app.spread.turn < app.state.turn) {
        const buffer = await (await app.get(`api/spread?${isBehind() ? "now" : `turn=${app.state.turn}`}`)).arrayBuffer();
        const fresh = unpacked(buffer);
        if (fresh.now < app.state.turn) continue;  // something was said meanwhile
        app.spread = fresh;
        document.body.dataset.spread = fresh.turn;
        app.tell("spread");
      }
    } catch { setTimeout(app.follow, 2000); } finally { fetching = false; }
  };
  let foreseeing = false;
  const foresee = async () => {  // what is asked next, once it is chosen by all answers: its picture is fetched ahead
    if (foreseeing) return;
    foreseeing = true;
    try {
      while (app.state.doing) app.stand(await (await app.get(`api/questions?${about()}${app.state.queue.length ? "&newest" : ""}`)).json());
    } catch { /* told already */ } finally { foreseeing = false; }
  };
  app.tell = (what) => app.listeners.forEach((listener) => listener(what));

  app.stand = (state) => {
    const isOld = app.state && state.lines < app.state.lines;  // answers may overtake each other
    app.state = isOld ? { ...app.state, shown: { ...state.shown, ...app.state.shown } } : state;
    document.body.dataset.turn = app.state.turn;
    app.tell("state");
    app.follow();
    foresee();
  };
}
