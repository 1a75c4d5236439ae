/* The calculator of docs/budget-in-the-browser.md: reads the setting, shows linkBudget.budget of it, draws curves.
Defaults are those of experiments/configs/demo.toml, except for the one maximum SNR that all devices have here. */
"use strict";

globalThis.linkBudgetPage = (() => {
  /* key: of the setting of airfl; scale: of the slider; whole: whole numbers alone. The fields of a choice are in
  CHOICES. A slider covers what is usual, the number beside it takes anything from `least` to `most`. */
  const FIELDS = [
    { name: "ratio", label: "compression ratio p", key: "scheme.ratio", value: 0.3, from: 0.01, to: 1, scale: "log", least: 1e-6, most: 1, group: "message" },
    { name: "devices", label: "devices N", key: "run.devices", value: 1000, from: 1, to: 100000, scale: "log", whole: true, least: 1, most: 1e7, group: "devices" },
    { name: "selected", label: "devices in a round r", key: "run.selected", value: 32, from: 1, to: 1000, scale: "log", whole: true, least: 1, most: 1e7, group: "devices" },
    { name: "rounds", label: "rounds T", key: "run.rounds", value: 150, from: 1, to: 5000, scale: "log", whole: true, least: 1, most: 1e6, group: "devices" },
    { name: "maxSnrDb", label: "maximum SNR in dB", key: "power.max_snr_db", value: 30, from: -10, to: 50, scale: "linear", least: -200, most: 200, group: "channel" },
    { name: "meanGain", label: "mean gain |h|, before the bounds", key: "channel.mean_gain", value: 0.02, from: 1e-3, to: 1, scale: "log", least: 1e-9, most: 1e9, group: "channel" },
    { name: "minGain", label: "smallest gain |h|", key: "channel.min_gain", value: 1e-4, from: 1e-6, to: 0.1, scale: "log", least: 1e-9, most: 1e9, group: "channel" },
    { name: "maxGain", label: "largest gain |h|", key: "channel.max_gain", value: 0.1, from: 1e-3, to: 10, scale: "log", least: 1e-9, most: 1e9, group: "channel" },
    { name: "clipNorm", label: "clip norm C", key: "local.clip_norm", value: 1, from: 0.01, to: 100, scale: "log", least: 1e-9, most: 1e9, group: "privacy" },
    { name: "epsilon", label: "claimed ε of a round, at most", key: "privacy.epsilon", value: 1.5, from: 0.01, to: 100, scale: "log", least: 1e-6, most: 1e9, group: "privacy" },
    { name: "delta", label: "δ", key: "privacy.delta", value: 1e-3, from: 1e-9, to: 0.1, scale: "log", least: 1e-30, most: 0.5, group: "privacy" },
    { name: "subcarriers", label: "subcarriers K", key: "grid.subcarriers", value: 3300, from: 12, to: 3300, scale: "log", whole: true, least: 1, most: 1e6, group: "grid" },
    { name: "spacingHz", label: "subcarrier spacing in Hz", key: "grid.spacing_hz", value: 15000, from: 15000, to: 120000, scale: "log", least: 1, most: 1e9, group: "grid" },
    { name: "dimension", label: "parameters d", value: 25450, from: 100, to: 2e7, scale: "log", whole: true, least: 1, most: 1e11, group: "message" },
  ];
  const MODELS = {
    logistic: 123,
    cnn: 21840,
    "cnn-femnist": 24492,
    mlp: 25450,
    "mlp-sigmoid": 50890,
    "lenet-cifar10": 62006,
    "cnn-cifar10": 537610,
    lstm: 822570,
    "cnn-fashion": 1663370,
    "cnn-svhn": 3431754,
    vgg11: 9750922,
    resnet18: 11192746,
  };
  const OWN = "own";
  const count = (number) => number.toLocaleString("en-US");
  const CHOICES = [
    { name: "scheme", label: "scheme", key: "scheme.name", value: "pfels", group: "message", options: { pfels: "PFELS: k of d entries", "wfl-p": "WFL-P: all, by power alone", "wfl-pdp": "WFL-PDP: all, power and privacy" } },
    { name: "model", label: "model", key: "task.model", value: "mlp", group: "message", options: { ...Object.fromEntries(Object.entries(MODELS).map(([name, d]) => [name, `${name}, d = ${count(d)}`])), [OWN]: "a number d of your own" } },
    { name: "law", label: "fading law of |h|", key: "channel.fading", value: "exponential", group: "channel", options: { exponential: "exponential (the paper's)", rayleigh: "Rayleigh", fixed: "none: every gain is the mean gain" } },
    { name: "packing", label: "entries on a resource element", key: "grid.packing", value: "real", group: "grid", options: { real: "one, on the real part", iq: "two, on both parts" } },
  ];
  const GROUPS = { message: "Scheme and message", devices: "Devices", channel: "Power and channel", privacy: "Clipping and privacy", grid: "Grid" };
  const FIRST = { message: ["scheme", "model", "dimension"], channel: ["maxSnrDb", "law"] };
  const BY_NAME = Object.fromEntries([...CHOICES, ...FIELDS].map((one) => [one.name, one]));
  const DEFAULTS = Object.fromEntries([...CHOICES, ...FIELDS].map((one) => [one.name, one.value]));
  const AGAINST = ["ratio", "selected", "devices", "maxSnrDb", "meanGain", "clipNorm", "epsilon", "delta", "dimension"];
  const STEPS = 1000;
  const POINTS = 49;
  const ADDRESS_MS = 200;

  // ---------------------------------------------------------------- numbers and settings

  /** A number as people read it, four digits. */
  function shown(value) {
    if (value < 0) return `−${shown(-value)}`;
    if (Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return "∞";
    if (value === 0) return "0";
    if (Number.isInteger(value) && value < 1e9) return count(value);
    if (value >= 1e-3 && value < 1e5) return String(Number(value.toPrecision(4)));
    return value.toExponential(3).replace(/\.?0*e\+?/, "e");
  }

  /** What is wrong with a setting in one line, "" if nothing is; and the name of the field. */
  function problemOf(setting) {
    for (const { name, label, whole, least, most } of FIELDS) {
      const value = setting[name];
      if (!Number.isFinite(value)) return [name, `${label}: a number is missing`];
      if (value < least || value > most) return [name, `${label} must be from ${shown(least)} to ${shown(most)}, got ${shown(value)}`];
      if (whole && !Number.isInteger(value)) return [name, `${label} must be a whole number, got ${value}`];
    }
    const { selected, devices, delta, minGain, maxGain, scheme } = setting;
    if (selected > devices) return ["selected", `r must be at most N = ${count(devices)}, got ${count(selected)}`];
    if (minGain > maxGain) return ["minGain", `the smallest gain must be at most the largest, ${shown(maxGain)}, got ${shown(minGain)}`];
    if (scheme !== "wfl-p" && delta * devices >= 1.25 * selected) {
      return ["delta", `theorem 3 of PFELS needs δ < 1.25 r/N = ${shown((1.25 * selected) / devices)}, got ${shown(delta)}`];
    }
    return ["", ""];
  }

  /** The setting in the fragment of an address: name=value joined by &; what it does not name is the default. */
  function readFragment(fragment) {
    const setting = { ...DEFAULTS, against: "ratio" };
    for (const [name, text] of new URLSearchParams(fragment.replace(/^#/, ""))) {
      if (name === "against" && AGAINST.includes(text)) setting.against = text;
      const field = BY_NAME[name];
      if (field?.options && Object.hasOwn(field.options, text)) setting[name] = text;
      if (field && !field.options && text.trim() !== "" && Number.isFinite(Number(text))) setting[name] = Number(text);
    }
    if (setting.model !== OWN) setting.dimension = MODELS[setting.model];
    return setting;
  }

  /** The fragment of a setting: what differs from the defaults. */
  function fragmentOf(setting) {
    const named = [...CHOICES, ...FIELDS].filter(({ name }) => {
      return name === "dimension" ? setting.model === OWN : setting[name] !== DEFAULTS[name];
    });
    const pairs = named.map(({ name }) => [name, String(setting[name])]);
    if (setting.against !== "ratio") pairs.push(["against", setting.against]);
    return new URLSearchParams(pairs).toString();
  }

  /** The command that computes the same in Python, "" for a d that no model of airfl has. */
  function commandOf(setting) {
    if (setting.model === OWN) return "";
    const words = ["airfl", "budget", "demo"];
    for (const { name, key } of [...CHOICES, ...FIELDS]) {
      const idle = name === "ratio" && setting.scheme !== "pfels";
      if (key && !idle && (setting[name] !== DEFAULTS[name] || name === "maxSnrDb")) words.push(`${key}=${setting[name]}`);
    }
    return [...words, "privacy.gains=private"].join(" ");
  }

  const decibels = (ratio) => 10 * Math.log10(ratio);

  /** What is shown of a budget: rows of a round, over its quantiles, and rows of the whole run. `key` is the figure's
  name in `airfl budget --json`. */
  const ROUND_ROWS = [
    { name: "coefficient", label: "alignment coefficient β", key: "alignment_coefficient_median", of: (one) => one.coefficient },
    { name: "noiseStd", label: "noise on an entry of the decoded mean, σ₀/(rβ)", of: (one) => one.noiseStd },
    { name: "snrEqual", label: "SNR of the decoded mean in dB, updates equal", of: (one) => decibels(one.snrEqual) },
    { name: "snrOrthogonal", label: "SNR of the decoded mean in dB, updates orthogonal", of: (one) => decibels(one.snrOrthogonal) },
    { name: "noiseMultiplier", label: "noise multiplier σ₀/(βC)", key: "noise_multiplier_min", of: (one) => one.noiseMultiplier },
    { name: "epsilonClaimed", label: "ε claimed for the round, C₂β", key: "epsilon_paper", of: (one) => one.epsilonClaimed },
    { name: "epsilonRound", label: "ε of the round, accounted, with the selection kept secret", key: "epsilon_round_max", of: (one) => one.epsilonRound },
    { name: "epsilonKnown", label: "ε of the round, accounted, with the selection known", of: (one) => one.epsilonKnown },
    { name: "epsilonPoisson", label: "ε of the round accounted as Poisson", key: "epsilon_round_max_as_poisson", of: (one) => one.epsilonPoisson },
  ];
  const RUN_ROWS = [
    { name: "entries", label: "entries that a device sends, k", key: "entries_per_device", round: (b) => b.entries, run: (b) => b.runEntries },
    { name: "elements", label: "resource elements", key: "resource_elements", round: (b) => b.elements, run: (b) => b.runElements },
    { name: "airTimeS", label: "air time in s", key: "air_time_s", round: (b) => b.airTimeS, run: (b) => b.runAirTimeS },
    { name: "energy", label: "energy of all devices, mean (normalised)", key: "energy_j", round: (b) => b.energy, run: (b) => b.runEnergy },
  ];
  const CHARTS = [
    {
      title: "alignment coefficient β",
      log: true,
      band: (b) => [b.low.coefficient, b.high.coefficient],
      first: ["median round", (b) => b.median.coefficient],
      second: ["privacy bound ε/C₂", (b) => b.privacyBound],
    },
    {
      title: "ε of a round",
      log: true,
      band: (b) => [b.low.epsilonRound, b.high.epsilonRound],
      first: ["accounted, selection kept secret, median round", (b) => b.median.epsilonRound],
      second: ["claimed", (b) => b.median.epsilonClaimed],
    },
    {
      title: "SNR of the decoded mean in dB",
      band: (b) => [decibels(b.low.snrEqual), decibels(b.high.snrEqual)],
      first: ["updates equal, median round", (b) => decibels(b.median.snrEqual)],
      second: ["orthogonal", (b) => decibels(b.median.snrOrthogonal)],
    },
    { title: "energy of a round (normalised)", log: true, first: ["mean over rounds", (b) => b.energy], second: ["limit of all devices, rP", (b) => b.selected * b.energyLimit] },
    { title: "rounds in which privacy sets β, in %", range: [0, 100], first: ["share of rounds", (b) => 100 * b.privacyBinds] },
    { title: "resource elements of a round", log: true, first: ["resource elements", (b) => b.elements] },
  ];

  // ---------------------------------------------------------------- the page

  const SVG = "http://www.w3.org/2000/svg";
  const make = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
  const draw = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

  function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  /** Where a value lies on the slider of its field, 0 to STEPS, and the value there. */
  function toSlider({ from, to, scale }, value) {
    const [low, high, at] = scale === "log" ? [from, to, value].map(Math.log) : [from, to, value];
    return Math.min(Math.max((STEPS * (at - low)) / (high - low), 0), STEPS);
  }

  function fromSlider({ from, to, scale, whole }, place) {
    const share = place / STEPS;
    const value = scale === "log" ? from * (to / from) ** share : from + (to - from) * share;
    return whole ? Math.round(value) : Number(value.toPrecision(3));
  }

  function start() {
    const form = document.getElementById("lb-form");
    const inputs = {};
    let setting = readFragment(location.hash);
    let waiting = 0; // until the curves are drawn
    let addressing = 0; // until the address is changed

    for (const [group, title] of Object.entries(GROUPS)) {
      const fieldset = make("fieldset", {}, make("legend", {}, title));
      const all = [...CHOICES, ...FIELDS].filter((one) => one.group === group).map((one) => one.name);
      const first = FIRST[group] ?? [];
      for (const name of [...first, ...all.filter((one) => !first.includes(one))]) fieldset.append(fieldOf(BY_NAME[name]));
      form.append(fieldset);
    }
    const reset = make("button", { type: "button", id: "lb-reset" }, "Reset");
    const link = make("a", { id: "lb-link", href: "#" }, "Link to this setting");
    form.append(make("p", {}, reset, " ", link));
    reset.addEventListener("click", () => change(readFragment("")));
    form.addEventListener("submit", (event) => event.preventDefault());

    const against = make("select", { id: "lb-against" }, ...AGAINST.map((name) => make("option", { value: name }, BY_NAME[name].label)));
    document.querySelector(".lb-against").append(make("label", { for: "lb-against" }, "Draw the curves against"), against);
    against.addEventListener("change", () => change({ ...setting, against: against.value }));

    function fieldOf(field) {
      const id = `lb-${field.name}`;
      const label = make("label", { for: id, id: `${id}-label` }, field.label);
      const box = make("div", { class: "lb-field", id: `${id}-field` }, label);
      if (field.options) {
        const options = Object.entries(field.options).map(([value, text]) => make("option", { value }, text));
        const select = make("select", { id }, ...options);
        select.addEventListener("change", () => choose(field.name, select.value));
        inputs[field.name] = { number: select };
        box.append(select);
        return box;
      }
      const slider = make("input", { type: "range", id: `${id}-slider`, min: 0, max: STEPS, step: 1, "aria-label": `${field.label}, slider` });
      const number = make("input", { type: "number", id, step: "any", inputmode: "decimal", "aria-describedby": "lb-problem" });
      slider.addEventListener("input", () => change({ ...setting, [field.name]: fromSlider(field, Number(slider.value)) }));
      number.addEventListener("input", () => change({ ...setting, [field.name]: number.value === "" ? NaN : Number(number.value) }, number));
      inputs[field.name] = { number, slider };
      box.append(slider, number);
      return box;
    }

    function choose(name, value) {
      const next = { ...setting, [name]: value };
      if (name === "model" && value !== OWN) next.dimension = MODELS[value];
      change(next);
    }

    /** Take over a setting and show it. The field that is being typed in keeps its text. */
    function change(next, typed) {
      setting = next;
      // Not at each step of a slider: browsers refuse more than some 100 changes in a few seconds, Safari by an error.
      clearTimeout(addressing);
      addressing = setTimeout(() => {
        const fragment = fragmentOf(setting);
        history.replaceState(null, "", fragment ? `#${fragment}` : `${location.pathname}${location.search}`);
      }, ADDRESS_MS);
      show(typed);
    }

    function show(typed) {
      const [wrong, problem] = problemOf(setting);
      for (const [name, { number, slider }] of Object.entries(inputs)) {
        if (number !== typed) number.value = Number.isNaN(setting[name]) ? "" : setting[name];
        number.setAttribute("aria-invalid", String(name === wrong));
        if (slider && Number.isFinite(setting[name])) {
          slider.value = toSlider(BY_NAME[name], setting[name]);
          slider.setAttribute("aria-valuetext", shown(setting[name]));
        }
      }
      document.getElementById("lb-dimension-field").hidden = setting.model !== OWN;
      document.getElementById("lb-ratio-field").hidden = setting.scheme !== "pfels";
      against.value = setting.against;
      link.href = `#${fragmentOf(setting)}`;
      const alert = document.getElementById("lb-problem");
      alert.hidden = !problem;
      if (alert.textContent !== problem) alert.textContent = problem;
      for (const id of ["lb-results", "lb-charts"]) document.getElementById(id).toggleAttribute("inert", Boolean(problem));
      if (problem) {
        clearTimeout(waiting);
        waiting = 0;
        document.getElementById("lb-results").replaceChildren();
        document.getElementById("lb-charts").replaceChildren();
        document.getElementById("lb-curve-table").replaceChildren();
        document.getElementById("lb-command").textContent = "";
        document.getElementById("lb-command-note").textContent = "";
        return;
      }
      showResults(linkBudget.budget(setting));
      waiting ||= setTimeout(showCurves, 30); // also while a slider is dragged
    }

    function showResults(budget) {
      const cell = (name, column, value) => make("td", { "data-name": name, "data-column": column, "data-value": value }, shown(value));
      const head = (...texts) => make("thead", {}, make("tr", {}, ...texts.map((text) => make("th", { scope: "col" }, text))));
      const shares = [["low", "10% quantile"], ["median", "median"], ["high", "90% quantile"], ["worst", `largest of ${count(setting.rounds)}`]];
      const rounds = ROUND_ROWS.map(({ name, label, of }) => {
        return make("tr", {}, make("th", { scope: "row" }, label), ...shares.map(([column]) => cell(name, column, of(budget[column]))));
      });
      const costs = RUN_ROWS.map(({ name, label, round, run }) => {
        return make("tr", {}, make("th", { scope: "row" }, label), cell(name, "round", round(budget)), cell(name, "run", run(budget)));
      });
      const scroll = (label, ...rows) => make("div", { class: "lb-scroll", tabindex: 0, role: "region", "aria-label": label }, make("table", {}, ...rows));
      document.getElementById("lb-results").replaceChildren(
        make("p", { id: "lb-binding", role: "status", "data-value": budget.privacyBinds }, sentence(budget)),
        scroll("Costs", make("caption", {}, "Costs"), head("figure", "a round", `${count(setting.rounds)} rounds`), make("tbody", {}, ...costs)),
        scroll("A round at four quantiles of β", make("caption", {}, "A round at four quantiles of β"), head("figure", ...shares.map(([, text]) => text)), make("tbody", {}, ...rounds)),
      );
      const command = commandOf(setting);
      document.getElementById("lb-command").textContent = command || "# airfl takes d from a model: give yours as an airfl.Task to airfl.link_budget";
      document.getElementById("lb-command-note").textContent = command
        ? "With --json it prints all digits. Its rounds are drawn with a seed, so that the median of β, the share of rounds and the energy agree up to the scatter of that many rounds; without fading they agree exactly."
        : "";
    }

    function sentence(budget) {
      const share = shown(100 * budget.privacyBinds);
      const { powerBound } = budget.median;
      if (budget.privacyBound === Infinity) return `Power sets β in every round: ${shown(powerBound)} in the median round.`;
      const bound = shown(budget.privacyBound);
      const binding = powerBound < budget.privacyBound ? "power" : "privacy";
      return `In the median round ${binding} sets β: power allows ${shown(powerBound)}, privacy ${bound}. Privacy sets β in ${share}% of the rounds.`;
    }

    function showCurves() {
      waiting = 0;
      const field = BY_NAME[setting.against];
      const places = Array.from({ length: POINTS }, (_, index) => fromSlider({ ...field, whole: false }, (index * STEPS) / (POINTS - 1)));
      const whole = field.whole ? [...new Set(places.map(Math.round))] : places;
      const own = setting.against === "dimension" ? { model: OWN } : {};
      const points = whole
        .map((x) => ({ x, setting: { ...setting, ...own, [setting.against]: x } }))
        .filter((one) => problemOf(one.setting)[1] === "")
        .map((one) => ({ x: one.x, ...linkBudget.budget(one.setting), selected: one.setting.selected }));
      const here = { x: setting[setting.against], ...linkBudget.budget(setting), selected: setting.selected };
      const width = Math.max(document.getElementById("lb-charts").clientWidth, 200);
      document.getElementById("lb-charts").replaceChildren(...CHARTS.map((chart) => make("figure", {})));
      const figures = document.querySelectorAll("#lb-charts figure");
      CHARTS.forEach((chart, index) => figures[index].append(...chartOf(chart, field, points, here, figures[index].clientWidth || width)));
      showTable(field, points);
    }

    function showTable(field, points) {
      const columns = CHARTS.flatMap((chart) => [chart.first, chart.second].filter(Boolean).map(([label, of]) => [`${chart.title}: ${label}`, of]));
      const some = points.filter((_, index) => index % 4 === 0);
      document.getElementById("lb-curve-table").replaceChildren(
        make("thead", {}, make("tr", {}, ...[field.label, ...columns.map(([label]) => label)].map((text) => make("th", { scope: "col" }, text)))),
        make("tbody", {}, ...some.map((point) => make("tr", {}, make("th", { scope: "row" }, shown(point.x)), ...columns.map(([, of]) => make("td", {}, shown(of(point))))))),
      );
    }

    addEventListener("hashchange", () => {
      if (!location.hash || location.hash.includes("=")) {
        clearTimeout(addressing);
        setting = readFragment(location.hash);
        show();
      }
    });
    addEventListener("resize", () => {
      clearTimeout(waiting);
      if (!problemOf(setting)[1]) waiting = setTimeout(showCurves, 100);
    });
    show();
  }

  // ---------------------------------------------------------------- curves

  /** Round numbers between two, for the labels of an axis. */
  function ticksOf(low, high, log, most) {
    if (log) {
      const from = Math.ceil(Math.log10(low) - 1e-9);
      const to = Math.floor(Math.log10(high) + 1e-9);
      const step = Math.max(Math.ceil((to - from + 1) / most), 1);
      const decades = [];
      for (let power = from; power <= to; power += step) decades.push(Number(`1e${power}`));
      if (decades.length > 1) return decades;
      const mixed = [];
      for (let power = from - 1; power <= to; power += 1) {
        for (const digit of [1, 2, 5]) mixed.push(Number(`${digit}e${power}`));
      }
      const inside = mixed.filter((one) => one >= low && one <= high);
      if (inside.length > 1) return inside.slice(0, most);
    }
    const raw = (high - low) / most;
    const unit = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((one) => one * unit).find((one) => one >= raw);
    const ticks = [];
    for (let tick = Math.ceil(low / step - 1e-9); tick * step <= high + 1e-9 * step; tick += 1) ticks.push(Number((tick * step).toPrecision(12)));
    return ticks;
  }

  function short(value) {
    if (value < 0) return `−${short(-value)}`;
    if (value === 0 || (value >= 0.01 && value < 1e4)) return String(value);
    return value.toExponential().replace("e+", "e");
  }

  /** The caption and the picture of one chart. */
  function chartOf(chart, field, points, here, width) {
    const height = 210;
    const [left, right, top, bottom] = [58, 10, 8, 44];
    const lines = [chart.first, chart.second].filter(Boolean);
    const usable = (value) => Number.isFinite(value) && (!chart.log || value > 0);
    const values = [...points, here].flatMap((point) => [...lines.map(([, of]) => of(point)), ...(chart.band?.(point) ?? [])]).filter(usable);
    const xs = [...points.map((point) => point.x), here.x];
    const [xLow, xHigh] = [Math.min(...xs), Math.max(...xs)];
    let [low, high] = chart.range ?? [Math.min(...values), Math.max(...values)];
    if (chart.log) {
      const margin = Math.max((high / low) ** 0.05, 1.1);
      [low, high] = [low / margin, high * margin];
    } else if (!chart.range) {
      const margin = 0.05 * (high - low) || 1;
      [low, high] = [low - margin, high + margin];
    }
    const along = (value, from, to, log) => (to === from ? 0.5 : log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from));
    const x = (value) => left + (width - left - right) * along(value, xLow, xHigh, field.scale === "log");
    const y = (value) => height - bottom - (height - top - bottom) * along(value, low, high, chart.log);
    const fixed = (number) => number.toFixed(1);
    const path = (of) => {
      let pen = "M";
      return points
        .map((point) => {
          const value = of(point);
          if (!usable(value)) {
            pen = "M";
            return "";
          }
          const text = `${pen}${fixed(x(point.x))} ${fixed(y(value))}`;
          pen = "L";
          return text;
        })
        .join("");
    };
    const description = `${chart.title} against ${field.label}, from ${shown(xLow)} to ${shown(xHigh)}; here ${lines.map(([label, of]) => `${label} ${shown(of(here))}`).join(", ")}`;
    const svg = draw("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": description });
    for (const tick of ticksOf(low, high, chart.log, 5)) {
      svg.append(draw("line", { class: "lb-grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick) }));
      svg.append(draw("text", { x: left - 6, y: y(tick) + 5, "text-anchor": "end" }, short(tick)));
    }
    for (const tick of ticksOf(xLow, xHigh, field.scale === "log", 4)) {
      svg.append(draw("line", { class: "lb-grid", x1: x(tick), x2: x(tick), y1: top, y2: height - bottom }));
      svg.append(draw("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, short(tick)));
    }
    svg.append(draw("text", { x: (left + width - right) / 2, y: height - 6, "text-anchor": "middle" }, field.label));
    if (chart.band && points.length > 1) {
      const ends = points.map((point) => [point.x, ...chart.band(point)]).filter(([, from, to]) => usable(from) && usable(to));
      const upper = ends.map(([place, , to]) => `${fixed(x(place))},${fixed(y(to))}`);
      const lower = ends.map(([place, from]) => `${fixed(x(place))},${fixed(y(from))}`).reverse();
      svg.append(draw("polygon", { class: "lb-band", points: [...upper, ...lower].join(" ") }));
    }
    lines.forEach(([, of], index) => svg.append(draw("path", { class: index ? "lb-line second" : "lb-line", d: path(of) })));
    svg.append(draw("line", { class: "lb-here", x1: x(here.x), x2: x(here.x), y1: top, y2: height - bottom }));
    const current = lines[0][1](here);
    if (usable(current)) svg.append(draw("circle", { class: "lb-dot", cx: x(here.x), cy: y(current), r: 4 }));
    svg.append(draw("rect", { class: "lb-frame", x: left, y: top, width: width - left - right, height: height - top - bottom }));
    const key = lines.map(([label, of], index) => {
      if (!points.some((point) => usable(of(point)))) return "";
      const sample = draw("svg", { width: 30, height: 12, "aria-hidden": "true" });
      sample.append(draw("line", { class: index ? "lb-line second" : "lb-line", x1: 0, x2: 30, y1: 6, y2: 6 }));
      return make("span", { class: "lb-key" }, sample, label);
    });
    const band = chart.band ? [make("span", { class: "lb-key" }, "shaded: 8 rounds in 10")] : [];
    return [make("figcaption", {}, make("strong", {}, chart.title), make("br"), ...key, ...band), svg];
  }

  if (globalThis.document?.getElementById("lb-form")) start(); // the first page has a calculator of its own
  return { BY_NAME, CHOICES, DEFAULTS, FIELDS, MODELS, ROUND_ROWS, RUN_ROWS, commandOf, fragmentOf, fromSlider, problemOf, readFragment, shown, toSlider };
})();
