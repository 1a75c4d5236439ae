// Tables and formulas that are wider than the page scroll by themselves. Those that do can be reached by keyboard.
"use strict";

(() => {
  function makeReachable() {
    for (const element of document.querySelectorAll(".table-wrapper, math[display=block]")) {
      if (element.scrollWidth > element.clientWidth) element.setAttribute("tabindex", "0");
      else element.removeAttribute("tabindex");
    }
  }
  document.addEventListener("DOMContentLoaded", makeReachable);
  window.addEventListener("load", makeReachable);
  window.addEventListener("resize", makeReachable);
})();
