"use strict";
// Draws the plots from the data beside them, and makes menus, legends and tables answer.
(() => {
  const all = (selector, inside = document) => Array.from(inside.querySelectorAll(selector));
  const touch = window.matchMedia("(pointer: coarse)").matches;
  const settings = {
    responsive: true,
    displaylogo: false,
    // Of plotly's own buttons one would send the figure to a server.
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
    showSendToCloud: false,
    plotlyServerURL: "",
  };
  const choices = new Map();

  function draw() {
    for (const island of all("script[data-plot]")) {
      const plot = document.getElementById(island.dataset.plot);
      const figure = JSON.parse(island.textContent);
      // A finger on a plot scrolls the page.
      if (touch) figure.layout.dragmode = false;
      choices.set(plot, figure.choices);
      Plotly.newPlot(plot, figure.data, figure.layout, settings);
    }
  }

  const plots = (element) => all(".plot", element.closest(".block") || element.closest("section"));

  function against(section, menu, box) {
    for (const plot of plots(menu)) {
      const choice = choices.get(plot)[menu.value];
      if (!choice) continue;
      const axis = {
        "xaxis.title.text": choice.title,
        "xaxis.type": box.checked ? "log" : "linear",
        "xaxis.tickmode": box.checked ? "array" : "auto",
        "xaxis.tickvals": choice.ticks,
        "xaxis.ticktext": choice.ticktexts,
        "xaxis.autorange": true,
      };
      Plotly.update(plot, { x: choice.x }, axis);
    }
  }

  function startMenus() {
    for (const menu of all("select.against")) {
      const section = menu.closest("section");
      const box = section.querySelector("input.logarithmic");
      const usual = () => {
        const choice = choices.get(plots(menu)[0])[menu.value];
        box.checked = choice.logarithmic;
        against(section, menu, box);
      };
      menu.addEventListener("change", usual);
      box.addEventListener("change", () => against(section, menu, box));
    }
  }

  function startLegends() {
    for (const button of all("button[data-series]")) {
      button.addEventListener("click", () => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        for (const plot of plots(button)) {
          const places = plot.data.flatMap((trace, place) => (trace.legendgroup === button.dataset.series ? [place] : []));
          if (places.length) Plotly.restyle(plot, { visible: shown }, places);
        }
      });
    }
  }

  // As Python writes numbers; what is not known is NaN.
  const number = (text) => ({ inf: Infinity, "-inf": -Infinity, nan: NaN })[text] ?? Number(text);

  function sort(heading) {
    const table = heading.closest("table");
    const column = heading.cellIndex;
    const rising = heading.getAttribute("aria-sort") !== "ascending";
    for (const other of all("thead th", table)) other.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const value = (row) => row.cells[column].dataset.value;
    const sign = rising ? 1 : -1;
    const numbers = (one, other) => {
      const [left, right] = [number(value(one)), number(value(other))];
      // What is not known stays at the end either way.
      if (Number.isNaN(left) || Number.isNaN(right)) return Number.isNaN(left) - Number.isNaN(right);
      return left === right ? 0 : sign * (left < right ? -1 : 1);
    };
    const texts = (one, other) => sign * value(one).localeCompare(value(other), undefined, { numeric: true });
    const rows = Array.from(table.tBodies[0].rows);
    table.tBodies[0].append(...rows.sort(heading.dataset.kind === "number" ? numbers : texts));
  }

  function startTables() {
    for (const button of all("table.sortable thead button")) {
      button.addEventListener("click", () => sort(button.closest("th")));
    }
  }

  draw();
  startMenus();
  startLegends();
  startTables();
  // On paper nothing is folded.
  window.addEventListener("beforeprint", () => all("details").forEach((folded) => (folded.open = true)));
})();
