"use strict";
// A click on a function shows it as wide as the drawing; one on the lowest row shows all again.
for (const drawing of document.querySelectorAll("svg.flame")) {
  const width = drawing.viewBox.baseVal.width;
  const frames = [...drawing.querySelectorAll("g")].map((group) => {
    const box = group.querySelector("rect");
    const name = group.querySelector("title").textContent.split("\n")[0];
    const [x, wide] = ["x", "width"].map((attribute) => Number(box.getAttribute(attribute)));
    return { group, box, name, x, wide, label: group.querySelector("text") };
  });
  const show = (x, wide) => {
    for (const frame of frames) {
      const from = Math.max(0, ((frame.x - x) / wide) * width);
      const to = Math.min(width, ((frame.x + frame.wide - x) / wide) * width);
      const letters = Math.floor((to - from - 6) / 6.3);
      frame.group.style.display = to - from < 0.5 ? "none" : "";
      frame.box.setAttribute("x", from);
      frame.box.setAttribute("width", Math.max(0, to - from));
      frame.label.setAttribute("x", from + 3);
      frame.label.textContent = letters < 3 ? "" : frame.name.slice(0, letters);
    }
  };
  for (const frame of frames) frame.group.addEventListener("click", () => show(frame.x, frame.wide));
}
