"use strict";
// Asks the server for what is new, and draws it.
(() => {
  const EVERY_MS = 1500;
  const INTERRUPTED_MS = 5000;
  const SOON_MS = 50;
  const MOST_CURVES = 6;
  const MOST_POINTS = 1500;
  const MOST_MARKS = 60;
  const HEIGHT = 250;
  const MARGIN = { left: 64, right: 12, top: 10, bottom: 42 };
  const DASHES = ["none", "7 4", "7 3 2 3", "2 3", "11 4", "11 3 2 3"];
  const SVG = "http://www.w3.org/2000/svg";

  const find = (id) => document.getElementById(id);
  const token = new URLSearchParams(location.search).get("token") ?? "";
  // Of every run that is drawn: what has been received of it so far.
  const runs = new Map();
  // Names of the runs that are drawn; null until the user has chosen.
  let chosen = null;
  let table = null;
  let timer = 0;
  // Number of the newest question; answers to earlier ones hold rounds that it asks for again.
  let newest = 0;
  let told = "";

  function element(name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    return made;
  }

  // null: not known. "inf": infinite.
  const number = (value) => (value === null || value === undefined ? NaN : value === "inf" ? Infinity : value === "-inf" ? -Infinity : value);

  function figures(value, digits = 4) {
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e5 || size < 1e-3 ? value.toExponential(digits - 2) : String(Number(value.toPrecision(digits)));
    return text.replace("-", "−");
  }

  const shownNames = () => {
    if (chosen) return chosen;
    // The run of a folder that holds a single one has the empty name.
    if (!table) return [""];
    const { points } = table;
    const running = points.filter((point) => point.state === "running" || point.state === "interrupted");
    const begun = points.filter((point) => point.done);
    return (running.length ? running : begun).slice(0, 4).map((point) => point.name);
  };
  const drawn = () => shownNames().map((name) => ({ name, ...runs.get(name) })).filter((run) => run.series);
  const labelOf = (name) => (table.points.find((point) => point.name === name) || {}).label || name;
  const looks = (place) => ({ stroke: `var(--c${place % 6})`, "stroke-dasharray": DASHES[place % 6] });

  // Energies in J and normalised ones have no common axis: those in the units of the first run are drawn.
  const energyUnits = (all) => all[0].energy_units + (all.some((run) => run.energy_units !== all[0].energy_units) ? "; runs in other units are left out" : "");
  const energyOf = (run, all) => (run.energy_units === all[0].energy_units ? run.series.energy : []);
  const isPercent = (values) => values.map((value) => 100 * value);
  const CHARTS = [
    { id: "accuracy", title: () => "Test accuracy (%)", of: (run) => isPercent(run.series.test_accuracy), unit: () => "%" },
    { id: "loss", title: () => "Test loss", of: (run) => run.series.test_loss, unit: () => "" },
    { id: "beta", title: () => "Alignment coefficient β, and the bound that sets it", of: (run) => run.series.alignment_coefficient, unit: () => "", marks: true },
    { id: "energy", title: (all) => `Energy so far (${energyUnits(all)})`, of: energyOf, unit: (run) => run.energy_units },
    { id: "epsilon", title: (all) => `Privacy loss ε so far, an upper bound${deltaOf(all)}`, of: (run) => run.series.epsilon, unit: () => "" },
  ];

  function deltaOf(all) {
    const deltas = new Set(all.map((run) => run.delta));
    const [delta] = deltas;
    if (deltas.size > 1) return " (at different δ)";
    return delta === null ? "" : ` (δ = ${figures(delta, 3)})`;
  }

  function take(name, received) {
    const known = runs.get(name);
    if (!received.from || !known) {
      const series = Object.fromEntries(Object.entries(received.series).map(([key, values]) => [key, values.map(number)]));
      runs.set(name, { ...received, series });
      return;
    }
    const series = known.series;
    for (const [key, values] of Object.entries(received.series)) values.forEach((value) => series[key].push(number(value)));
    runs.set(name, { ...known, ...received, places: known.places, series });
  }

  async function look() {
    clearTimeout(timer);
    newest += 1;
    const question = newest;
    const asked = shownNames().map((name) => {
      const known = runs.get(name);
      return `of=${encodeURIComponent(`${known ? known.generation : 0}:${known ? known.done : 0}:${name}`)}`;
    });
    asked.push(`token=${encodeURIComponent(token)}`);
    let wait = EVERY_MS;
    try {
      const answer = await fetch(`data?${asked.join("&")}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`the server has answered ${answer.status}`);
      const received = await answer.json();
      if (question !== newest) return;
      table = received;
      for (const [name, run] of Object.entries(received.runs)) take(name, run);
      show();
      // The first answer says which runs there are; their rounds come with the next one.
      if (shownNames().some((name) => !runs.has(name) || runs.get(name).done < doneOf(name))) wait = SOON_MS;
      else if (received.ended) return stop();
      else if (received.points.some((point) => point.state === "not read yet")) wait = SOON_MS;
      else if (received.points.length && received.points.every((point) => point.state !== "running" && point.state !== "waiting")) wait = INTERRUPTED_MS;
    } catch (error) {
      if (question !== newest) return;
      const line = `airfl watch does not answer (${error.message}); if it has ended, start it again and open its new address.`;
      find("line").textContent = line;
      tell(line);
      wait = INTERRUPTED_MS;
    }
    timer = setTimeout(look, wait);
  }

  const doneOf = (name) => (table.points.find((point) => point.name === name) || { done: 0 }).done;

  function stop() {
    find("again").hidden = false;
  }

  // Screen readers are told of changes of state and of every tenth of the rounds, not of every round.
  function tell(text) {
    if (text !== told) find("news").textContent = told = text;
  }

  function show() {
    const { points } = table;
    find("folder").textContent = `airfl watch: ${table.folder}`;
    document.title = `airfl watch: ${table.folder}`;
    find("line").textContent = table.line;
    find("again").hidden = true;
    const rounds = points.reduce((sum, point) => sum + point.rounds, 0);
    const done = points.reduce((sum, point) => sum + point.done, 0);
    const single = table.kind === "run";
    const share = single ? (rounds ? done / rounds : 0) : points.filter((point) => ["complete", "failed", "unreadable"].includes(point.state)).length / (points.length || 1);
    const bar = find("progress");
    bar.hidden = !points.length;
    bar.value = share;
    bar.setAttribute("aria-label", single ? "rounds that have been run" : "runs that have ended");
    const states = Array.from(new Set(points.map((point) => point.state)));
    tell(points.length ? `${table.ended ? "Ended. " : ""}${states.join(", ")}; ${10 * Math.floor(10 * share)}% done.` : table.line);
    showPoints(single);
    const all = drawn();
    find("curves").hidden = !all.some((run) => run.done);
    showLegend(all, single);
    CHARTS.forEach((chart) => showChart(chart, all));
    showDevices(all);
  }

  function showPoints(single) {
    find("points").hidden = single || !table.points.length;
    if (single) return;
    const body = document.querySelector("#points tbody");
    const names = shownNames();
    const now = Array.from(body.rows, (row) => row.dataset.name);
    if (now.length !== table.points.length || table.points.some((point, place) => point.name !== now[place])) {
      body.replaceChildren(...table.points.map(rowOf));
    }
    table.points.forEach((point, place) => {
      const row = body.rows[place];
      const box = row.querySelector("input");
      box.checked = names.includes(point.name);
      box.disabled = !box.checked && names.length >= MOST_CURVES;
      const texts = [
        point.state + (point.note ? `: ${point.note}` : ""),
        point.rounds ? `${point.done} of ${point.rounds}` : "",
        point.accuracy === null ? "" : figures(100 * point.accuracy),
        point.left,
      ];
      texts.forEach((text, column) => {
        if (row.cells[column + 2].textContent !== text) row.cells[column + 2].textContent = text;
      });
    });
  }

  function rowOf(point) {
    const row = document.createElement("tr");
    row.dataset.name = point.name;
    const box = document.createElement("input");
    box.type = "checkbox";
    box.setAttribute("aria-label", `draw the curves of ${point.label}`);
    box.addEventListener("change", () => {
      chosen = box.checked ? [...shownNames(), point.name].slice(-MOST_CURVES) : shownNames().filter((name) => name !== point.name);
      show();
      look();
    });
    row.insertCell().append(box);
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = point.label;
    row.append(head);
    ["", "number", "number", ""].forEach((kind) => (row.insertCell().className = kind));
    return row;
  }

  function showLegend(all, single) {
    const legend = find("legend");
    legend.hidden = single;
    if (single) return;
    legend.replaceChildren(
      ...all.map((run, place) => {
        const item = document.createElement("li");
        const sample = element("svg", { width: 36, height: 12, "aria-hidden": "true" });
        sample.append(element("line", { x1: 0, x2: 36, y1: 6, y2: 6, "stroke-width": 3, ...looks(place) }));
        item.append(sample, labelOf(run.name));
        return item;
      }),
    );
  }

  // Round ticks from low to high.
  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((digit) => digit * power).find((one) => one >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    const found = [];
    for (let at = first; at * step <= high + 1e-9 * step; at += 1) found.push(at * step);
    return found;
  }

  const pointsOf = (values) => {
    const known = [];
    values.forEach((value, round) => {
      if (Number.isFinite(value)) known.push([round + 1, value]);
    });
    if (known.length <= MOST_POINTS) return known;
    const step = (known.length - 1) / (MOST_POINTS - 1);
    return Array.from({ length: MOST_POINTS }, (_, at) => known[Math.round(at * step)]);
  };
  const lastOf = (values) => {
    for (let at = values.length - 1; at >= 0; at -= 1) if (!Number.isNaN(values[at])) return [at + 1, values[at]];
    return null;
  };

  function boundAt(run, round) {
    const power = run.series.power_bound_binding[round - 1] === 1;
    const privacy = run.series.privacy_bound_binding[round - 1] === 1;
    return power && privacy ? "power and privacy" : power ? "power" : privacy ? "privacy" : "neither";
  }

  // A place on the page for a chart, which is made once: what has the focus keeps it.
  const places = new Map();
  function placeOf(chart) {
    if (!places.has(chart.id)) {
      const figure = document.createElement("figure");
      figure.className = "chart";
      figure.id = `chart-${chart.id}`;
      const caption = document.createElement("figcaption");
      const svg = element("svg", { height: HEIGHT, role: "img", tabindex: 0 });
      const output = document.createElement("output");
      figure.append(caption, svg, output);
      find("charts").append(figure);
      const place = { figure, caption, svg, output, cursor: null };
      const move = (round) => {
        place.cursor = round;
        showChart(chart, drawn());
      };
      svg.addEventListener("pointermove", (event) => {
        const { left } = svg.getBoundingClientRect();
        move(place.roundAt(event.clientX - left));
      });
      svg.addEventListener("pointerleave", () => move(null));
      svg.addEventListener("blur", () => move(null));
      svg.addEventListener("keydown", (event) => {
        const now = place.cursor === null ? place.end : place.cursor;
        const step = event.shiftKey ? 10 : 1;
        const to = { ArrowLeft: now - step, ArrowRight: now + step, Home: 1, End: place.end, Escape: null }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        move(to === null ? null : Math.min(Math.max(to, 1), place.end));
      });
      places.set(chart.id, place);
    }
    return places.get(chart.id);
  }

  function showChart(chart, all) {
    const curves = all.map((run, place) => ({ run, place, values: chart.of(run, all) }));
    const known = curves.map((curve) => pointsOf(curve.values));
    const newest = curves.map((curve) => lastOf(curve.values));
    const place = placeOf(chart);
    // Digital links have no beta, and a run without noise no epsilon that is finite.
    place.figure.hidden = !newest.some((last) => last);
    if (place.figure.hidden) return;
    place.end = Math.max(1, ...all.map((run) => run.done));
    const title = chart.title(all);
    const said = newest.map((last, at) => last && (all.length > 1 ? `${labelOf(all[at].name)}: ` : "") + `${figures(last[1])}${unitText(chart, all[at])} after round ${last[0]}`).filter(Boolean);
    const now = document.createElement("span");
    now.className = "now";
    now.textContent = all.length === 1 ? `: ${said[0]}` : "";
    place.caption.replaceChildren(title, now);
    place.svg.setAttribute("aria-label", `${title}: ${said.join("; ")}`);
    draw(chart, place, curves, known);
    readOut(chart, place, curves);
  }

  const unitText = (chart, run) => (chart.unit(run) ? ` ${chart.unit(run)}`.replace(" %", "%") : "");

  function draw(chart, place, curves, known) {
    const width = Math.max(place.svg.clientWidth || place.figure.clientWidth, 200);
    const values = known.flat().map((point) => point[1]);
    let [low, high] = values.length ? [Math.min(...values), Math.max(...values)] : [0, 1];
    if (chart.id === "energy" || chart.id === "epsilon") low = 0;
    if (high - low < 1e-12 * Math.max(Math.abs(high), 1e-300)) [low, high] = [low - (Math.abs(low) || 1) * 0.1, high + (Math.abs(high) || 1) * 0.1];
    const pad = 0.05 * (high - low);
    [low, high] = [low >= 0 ? Math.max(low - pad, 0) : low - pad, high + pad];
    if (chart.id === "accuracy") high = Math.min(high, 100);
    const end = Math.max(place.end, 2);
    const [inner, tall] = [width - MARGIN.left - MARGIN.right, HEIGHT - MARGIN.top - MARGIN.bottom];
    const x = (round) => MARGIN.left + ((round - 1) / (end - 1)) * inner;
    const y = (value) => MARGIN.top + (1 - (value - low) / (high - low)) * tall;
    place.roundAt = (at) => Math.min(Math.max(Math.round(1 + ((at - MARGIN.left) / inner) * (end - 1)), 1), place.end);
    const parts = [];
    for (const tick of ticks(low, high, 5)) {
      parts.push(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(tick), y2: y(tick) }));
      parts.push(element("text", { x: MARGIN.left - 8, y: y(tick) + 5, "text-anchor": "end" }, figures(Math.abs(tick) < 1e-12 * high ? 0 : tick, 3)));
    }
    for (const tick of ticks(1, end, width < 500 ? 4 : 8).filter(Number.isInteger)) {
      parts.push(element("text", { x: x(tick), y: HEIGHT - 22, "text-anchor": "middle" }, String(tick)));
    }
    parts.push(element("line", { class: "axis", x1: MARGIN.left, x2: width - MARGIN.right, y1: HEIGHT - MARGIN.bottom, y2: HEIGHT - MARGIN.bottom }));
    parts.push(element("text", { x: MARGIN.left + inner / 2, y: HEIGHT - 3, "text-anchor": "middle" }, "round"));
    curves.forEach((curve, at) => {
      const path = known[at].map(([round, value]) => `${x(round).toFixed(1)},${y(value).toFixed(1)}`);
      parts.push(element("polyline", { class: "curve", points: path.join(" "), ...looks(curve.place) }));
      if (path.length === 1) parts.push(element("circle", { cx: x(known[at][0][0]), cy: y(known[at][0][1]), r: 4, fill: looks(curve.place).stroke }));
      if (chart.marks) marks(parts, curve, known[at], x, y);
    });
    if (place.cursor !== null) {
      parts.push(element("line", { class: "cursor", x1: x(place.cursor), x2: x(place.cursor), y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom }));
    }
    place.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    place.svg.replaceChildren(...parts);
  }

  // Discs where the power limits set beta, squares where the privacy bound does; of many rounds some.
  function marks(parts, curve, known, x, y) {
    const step = Math.max(1, Math.ceil(known.length / MOST_MARKS));
    for (let at = known.length - 1; at >= 0; at -= step) {
      const [round, value] = known[at];
      const bound = boundAt(curve.run, round);
      const colour = looks(curve.place).stroke;
      if (bound.startsWith("power")) parts.push(element("circle", { cx: x(round), cy: y(value), r: 3.5, fill: colour }));
      if (bound.endsWith("privacy")) parts.push(element("rect", { x: x(round) - 4.5, y: y(value) - 4.5, width: 9, height: 9, fill: "var(--back)", stroke: colour, "stroke-width": 2 }));
    }
  }

  function readOut(chart, place, curves) {
    const bounds = (run) => {
      const count = (name) => run.series[name].filter((value) => value === 1).length;
      return `● power limits set β in ${count("power_bound_binding")} of ${run.done} rounds, □ the privacy bound in ${count("privacy_bound_binding")}`;
    };
    let text = chart.marks && curves.length === 1 ? bounds(curves[0].run) : chart.marks ? "● the power limits set β, □ the privacy bound does" : "";
    if (text && curves.some((curve) => curve.run.done > MOST_MARKS)) text += "; some rounds are marked";
    if (place.cursor !== null) {
      const read = curves.map((curve) => {
        const value = curve.values[place.cursor - 1];
        const name = curves.length > 1 ? `${labelOf(curve.run.name)}: ` : "";
        if (value === undefined) return `${name}${curve.values.length ? "not run yet" : "left out"}`;
        if (Number.isNaN(value)) return `${name}not evaluated`;
        const bound = chart.marks ? ` (bound that sets it: ${boundAt(curve.run, place.cursor)})` : "";
        return `${name}${figures(value)}${unitText(chart, curve.run)}${bound}`;
      });
      text = `Round ${place.cursor}: ${read.join("; ")}`;
    }
    if (place.output.textContent !== text) place.output.textContent = text;
  }

  // Colours from the least to the largest gain, each distinguishable by lightness alone.
  const SCALE = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
  function colourOf(share) {
    const at = Math.min(Math.max(share, 0), 1) * (SCALE.length - 1);
    const low = Math.min(Math.floor(at), SCALE.length - 2);
    return `rgb(${SCALE[low].map((from, part) => Math.round(from + (at - low) * (SCALE[low + 1][part] - from))).join(" ")})`;
  }

  function showDevices(all) {
    const run = all.find((one) => one.selected.device.length);
    find("devices").hidden = !run;
    if (!run) return;
    const gains = run.selected.gain_db.map(number);
    const finite = gains.filter(Number.isFinite);
    const ends = finite.length ? [Math.min(...finite), Math.max(...finite)] : [0, 0];
    const heard = run.selected.heard.filter(Boolean).length;
    const name = all.length > 1 ? `${labelOf(run.name)}, ` : "";
    const summary = `${name}round ${run.done}: ${gains.length} selected, ${heard} heard, channel gains ${figures(ends[0])} to ${figures(ends[1])} dB`;
    find("map-caption").textContent = summary;
    const svg = element("svg", { role: "img", "aria-label": summary });
    find("map").replaceChildren(svg);
    const width = Math.max(svg.clientWidth || find("map").clientWidth, 200);
    const dot = (at, cx, cy) => {
      const share = ends[1] > ends[0] && Number.isFinite(gains[at]) ? (gains[at] - ends[0]) / (ends[1] - ends[0]) : gains[at] === -Infinity ? 0 : 0.5;
      const colour = colourOf(share);
      const look = run.selected.heard[at] ? { fill: colour, stroke: "var(--soft)" } : { class: "silent", stroke: colour };
      const made = element("circle", { cx, cy, r: 7, ...look });
      made.append(element("title", {}, `device ${run.selected.device[at]}: ${figures(gains[at])} dB${run.selected.heard[at] ? "" : ", not heard"}`));
      return made;
    };
    if (run.places) drawMap(svg, run, width, dot);
    else drawStrip(svg, gains, ends, width, dot);
    showScale(ends, run);
    showNewest(run, heard, gains.length);
  }

  function drawMap(svg, run, width, dot) {
    const { device, x_m: east, y_m: north } = run.places;
    const reach = Math.max(...east.map(Math.abs), ...north.map(Math.abs), 1);
    const size = Math.min(width, 480);
    const scale = (size / 2 - 16) / reach;
    const [x, y] = [(value) => size / 2 + value * scale, (value) => size / 2 - value * scale];
    const at = new Map(device.map((one, place) => [one, place]));
    svg.setAttribute("viewBox", `0 0 ${size} ${size + 30}`);
    svg.style.maxWidth = `${size}px`;
    const chosenOnes = new Set(run.selected.device);
    device.forEach((one, place) => {
      if (chosenOnes.has(one)) return;
      const other = element("circle", { class: "faint", cx: x(east[place]), cy: y(north[place]), r: 3 });
      other.append(element("title", {}, `device ${one}, not selected`));
      svg.append(other);
    });
    svg.append(element("path", { d: `M ${size / 2} ${size / 2 - 9} l 8 15 h -16 z`, fill: "var(--ink)" }));
    run.selected.device.forEach((one, place) => {
      if (at.has(one)) svg.append(dot(place, x(east[at.get(one)]), y(north[at.get(one)])));
    });
    const step = ticks(0, reach, 2)[1] || reach;
    svg.append(element("line", { class: "axis", x1: 8, x2: 8 + step * scale, y1: size + 4, y2: size + 4, "stroke-width": 2 }));
    svg.append(element("text", { x: 8, y: size + 24 }, `${figures(step, 3)} m; ▲ base station`));
  }

  function drawStrip(svg, gains, ends, width, dot) {
    const [low, high] = ends[1] > ends[0] ? ends : [ends[0] - 1, ends[1] + 1];
    const x = (value) => 24 + ((Math.max(value, low) - low) / (high - low)) * (width - 48);
    svg.setAttribute("viewBox", `0 0 ${width} 150`);
    svg.append(element("line", { class: "axis", x1: 24, x2: width - 24, y1: 108, y2: 108 }));
    for (const tick of ticks(low, high, width < 500 ? 4 : 8)) svg.append(element("text", { x: x(tick), y: 126, "text-anchor": "middle" }, figures(Math.abs(tick) < 1e-9 ? 0 : tick, 3)));
    svg.append(element("text", { x: width / 2, y: 146, "text-anchor": "middle" }, "channel gain |h| (dB)"));
    gains.forEach((gain, place) => {
      if (!Number.isNaN(gain)) svg.append(dot(place, x(gain), 96 - (place % 6) * 16));
    });
  }

  function showScale(ends, run) {
    const text = document.createElement("p");
    text.className = "fine";
    const silent = run.selected.heard.every(Boolean) ? "" : " Rings: selected and not heard.";
    const grey = run.places ? (run.places.device.length < run.places.all ? ` Of ${run.places.all} devices the selected ones are shown.` : " Grey: not selected.") : "";
    text.textContent = `Dark is ${figures(ends[0])} dB, light ${figures(ends[1])} dB.${silent}${grey}`;
    find("map").append(text);
  }

  function showNewest(run, heard, selected) {
    const { series } = run;
    const latest = (values, scale = 1, unit = "") => {
      const last = lastOf(values);
      return last && `${figures(last[1] * scale)}${unit} (round ${last[0]})`;
    };
    const best = series.test_accuracy.reduce((most, value) => (value > most ? value : most), -Infinity);
    const beta = lastOf(series.alignment_coefficient);
    const rows = [
      ["scheme", run.scheme],
      ["state", run.state],
      ["rounds", `${run.done} of ${run.rounds}`],
      ["time left", run.left],
      ["test accuracy", latest(series.test_accuracy, 100, "%")],
      ["best test accuracy", Number.isFinite(best) && `${figures(100 * best)}%`],
      ["test loss", latest(series.test_loss)],
      ["β", beta && latest(series.alignment_coefficient)],
      ["bound that sets β", beta && boundAt(run, beta[0])],
      ["energy so far", latest(series.energy, 1, ` ${run.energy_units}`)],
      ["ε so far, upper bound", latest(series.epsilon)],
      ["ε of the last round", latest(series.epsilon_round)],
      ["heard", `${heard} of ${selected} devices`],
    ].filter(([, value]) => value);
    find("newest").replaceChildren(
      ...rows.flatMap(([name, value]) => {
        const [term, said] = [document.createElement("dt"), document.createElement("dd")];
        term.textContent = name;
        said.textContent = value;
        return [term, said];
      }),
    );
  }

  find("again").addEventListener("click", look);
  let resized = 0;
  window.addEventListener("resize", () => {
    clearTimeout(resized);
    resized = setTimeout(() => table && show(), 100);
  });
  look();
})();
