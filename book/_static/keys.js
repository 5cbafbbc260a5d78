// What is wider than the page scrolls in a box of its own. Keys can reach it as long as it does.
"use strict";

addEventListener("DOMContentLoaded", () => {
  const boxes = new ResizeObserver(entries => {
    for (const {target} of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll(".output:is(.text_html, .stream), .pst-scrollable-table-container, mjx-container[display]")) boxes.observe(box);
});
