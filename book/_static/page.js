// What pages need beside their players: boxes that scroll, folds, and paper.
"use strict";

// A box that is wider than the page scrolls. Keys can reach it while it does, and it fades where it goes on.
const SCROLLING = ".output:is(.text_html, .stream), .sg-panels, .highlight pre, .pst-scrollable-table-container, mjx-container[display]";

function fade(box) {
  const hidden = box.scrollWidth - box.clientWidth;
  if (hidden <= 1) {
    box.removeAttribute("tabindex");
    delete box.dataset.more;
    return;
  }
  box.tabIndex = 0;
  const sides = [box.scrollLeft > 1 && "left", box.scrollLeft < hidden - 1 && "right"];
  box.dataset.more = sides.filter(Boolean).join(" ");
}

// The small mark beside a figure or a table says whose source it shows, to those who meet it without its neighbours.
function nameFold(summary) {
  const made = summary.closest(".cell").querySelector(".cell_output :is(caption, svg[aria-label], .sg-player)");
  const what = made && (made.getAttribute("aria-label") || made.textContent).split(/[.:;]/)[0].trim().slice(0, 80);
  if (what) summary.setAttribute("aria-label", `${summary.innerText.trim() || "source"} of ${what}`);
}

// Open the folds that an element lies in.
function unfold(element) {
  for (let fold = element.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
}

// A link that leads into a closed fold opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target || !target.closest("details:not([open])")) return;
  unfold(target);
  target.scrollIntoView();
}

// Paper is white, whatever the theme.
let theme;
addEventListener("beforeprint", () => {
  theme = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
});
addEventListener("afterprint", () => { document.documentElement.dataset.theme = theme; });

addEventListener("hashchange", openTarget);
addEventListener("DOMContentLoaded", () => {
  const sizes = new ResizeObserver(entries => entries.forEach(({target}) => fade(target)));
  for (const box of document.querySelectorAll(SCROLLING)) {
    sizes.observe(box);
    box.addEventListener("scroll", () => fade(box), {passive: true});
  }
  document.querySelectorAll(".tag_hide-input > details.hide > summary").forEach(nameFold);
  openTarget();
});
