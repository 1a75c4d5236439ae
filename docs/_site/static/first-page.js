/* The figure of docs/index.md: what PFELS saves and what its privacy is worth, beside WFL-PDP, which sends all entries
over the same channel. All figures are those of linkBudget.budget, the calculator of docs/budget-in-the-browser.md. */
"use strict";

globalThis.firstPage = (() => {
  const { BY_NAME, DEFAULTS, commandOf, fragmentOf, fromSlider, shown, toSlider } = linkBudgetPage;
  const SLIDERS = ["ratio", "maxSnrDb", "epsilon"];
  const SCHEMES = ["pfels", "wfl-pdp"];
  const STEPS = 1000; // of linkBudgetPage
  const SAY_MS = 600;

  /** What is shown: rows of the table. Bars of rows with the same scale are drawn against one maximum. */
  const ROWS = [
    { name: "elements", label: "resource elements of the run", scale: "elements", of: (b) => b.runElements },
    { name: "energy", label: "energy of the run (normalised)", scale: "energy", of: (b) => b.runEnergy },
    { name: "claimed", label: "ε claimed for the median round", scale: "epsilon", of: (b) => b.median.epsilonClaimed },
    { name: "accounted", label: "accounted ε of that round, with the selection kept secret", scale: "epsilon", of: (b) => b.median.epsilonRound },
    { name: "snr", label: "SNR of its decoded mean in dB, updates equal", of: (b) => 10 * Math.log10(b.median.snrEqual) },
  ];

  /** The figures of a setting: of each row a value for each scheme, and the length of its bar from 0 to 1, or null. */
  function figuresOf(setting) {
    const budgets = SCHEMES.map((scheme) => linkBudget.budget({ ...DEFAULTS, ...setting, scheme }));
    const values = ROWS.map((row) => budgets.map(row.of));
    return ROWS.map((row, index) => {
      const together = ROWS.flatMap((other, place) => (other.scale === row.scale ? values[place] : []));
      const most = Math.max(...together);
      return { ...row, values: values[index], lengths: row.scale ? values[index].map((value) => value / most) : null };
    });
  }

  function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function start() {
    const setting = Object.fromEntries(SLIDERS.map((name) => [name, DEFAULTS[name]]));
    let saying = 0;
    const form = document.getElementById("fp-form");
    for (const name of SLIDERS) {
      const field = BY_NAME[name];
      const id = `fp-${name}`;
      const slider = make("input", { id, type: "range", min: 0, max: STEPS, step: 1 });
      const output = make("output", { for: id });
      const show = () => {
        output.textContent = shown(setting[name]);
        slider.setAttribute("aria-valuetext", shown(setting[name]));
      };
      slider.value = String(toSlider(field, setting[name]));
      slider.addEventListener("input", () => {
        setting[name] = fromSlider(field, Number(slider.value));
        show();
        draw();
        clearTimeout(saying);
        saying = setTimeout(say, SAY_MS);
      });
      show();
      form.append(make("div", { class: "fp-field" }, make("label", { for: id }, field.label), output, slider));
    }
    const body = document.getElementById("fp-rows");

    function draw() {
      body.replaceChildren(
        ...figuresOf(setting).map(({ label, values, lengths }) => {
          const cells = values.map((value, index) => {
            const bar = make("span", { class: `fp-bar ${SCHEMES[index]}`, "aria-hidden": "true" });
            if (lengths) bar.style.width = `${Math.max(lengths[index] * 100, 0.5)}%`;
            return make("td", {}, shown(value), ...(lengths ? [make("span", { class: "fp-track" }, bar)] : []));
          });
          return make("tr", {}, make("th", { scope: "row" }, label), ...cells);
        }),
      );
      const whole = { ...DEFAULTS, ...setting, against: "ratio" };
      document.getElementById("fp-command").textContent = commandOf(whole);
      document.getElementById("fp-link").href = `budget-in-the-browser.html#${fragmentOf(whole)}`;
    }

    /** Tell a screen reader once the sliders rest. */
    function say() {
      const [elements, , claimed, accounted] = figuresOf(setting).map((row) => row.values[0]);
      const told = `${shown(elements)} resource elements, ε ${shown(claimed)} claimed and ${shown(accounted)} accounted`;
      document.getElementById("fp-said").textContent = `PFELS: ${told}`;
    }

    draw();
    for (const id of ["fp-form", "fp-table", "fp-more"]) document.getElementById(id).hidden = false;
  }

  if (globalThis.document?.getElementById("first-page")) start();
  return { ROWS, SCHEMES, SLIDERS, figuresOf };
})();
