"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, text) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; return e; };

  // --- downloads: a table as it is shown, as CSV; a drawing as SVG or PNG
  function save(name, url) {
    const link = make("a");
    link.href = url;
    link.download = name;
    link.click();
  }
  const button = (text, act) => {
    const made = make("button", text);
    made.type = "button";
    made.addEventListener("click", act);
    return made;
  };
  const quoted = (text) => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  const words = (cell) => cell.textContent.replaceAll("\u2212", "-").trim();
  const shown = (table, join) => [...table.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(join));
  for (const table of all("table")) {
    const name = table.id.replace("table-", "");
    const tools = table.closest(".scroll").nextElementSibling;
    tools.prepend(
      button("Copy", async (event) => {
        await navigator.clipboard.writeText(shown(table, words).map((row) => row.join("\t")).join("\n"));
        event.target.textContent = "Copied";
      }),
      button("CSV", () => {
        const text = shown(table, (cell) => quoted(words(cell))).map((row) => row.join(",")).join("\r\n");
        save(`${name}.csv`, URL.createObjectURL(new Blob([text + "\r\n"], { type: "text/csv" })));
      }));
  }
  const painted = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linejoin", "opacity",
    "visibility", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
  function standalone(svg) {
    const copy = svg.cloneNode(true), parts = all("*", copy);
    all("*", svg).forEach((from, i) => {
      const style = getComputedStyle(from);
      if (style.display === "none") parts[i].setAttribute("display", "none");
      for (const name of painted) parts[i].setAttribute(name, style.getPropertyValue(name));
      for (const name of ["class", "style", "tabindex"]) parts[i].removeAttribute(name);
    });
    const { width, height } = svg.viewBox.baseVal;
    for (const [name, value] of Object.entries({ xmlns: "http://www.w3.org/2000/svg", width, height })) copy.setAttribute(name, value);
    copy.removeAttribute("class");
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const fill = getComputedStyle(document.body).backgroundColor;
    for (const [name, value] of Object.entries({ width: "100%", height: "100%", fill })) paper.setAttribute(name, value);
    copy.prepend(paper);
    return new XMLSerializer().serializeToString(copy);
  }
  function savePicture(svg, name) {
    const { width, height } = svg.viewBox.baseVal, image = new Image();
    image.onload = () => {
      const canvas = make("canvas");
      canvas.width = 3 * width;
      canvas.height = 3 * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(name, URL.createObjectURL(blob)));
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(standalone(svg))}`;
  }
  all("figure").forEach((figure, number) => {
    const drawings = () => all("svg[viewBox]", figure).filter((svg) => !svg.closest(".legend") && svg.getClientRects().length);
    const name = (i, end) => `figure-${number + 1}${drawings().length > 1 ? `-${i + 1}` : ""}.${end}`;
    const tools = make("p");
    tools.className = "tools";
    tools.append(
      button("SVG", () => drawings().forEach((svg, i) =>
        save(name(i, "svg"), URL.createObjectURL(new Blob([standalone(svg)], { type: "image/svg+xml" }))))),
      button("PNG", () => drawings().forEach((svg, i) => savePicture(svg, name(i, "png")))));
    figure.append(tools);
  });

  // --- paper shows every table
  const folded = () => all("main details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => { opened = folded(); for (const part of opened) part.open = true; });
  addEventListener("afterprint", () => { for (const part of opened) part.open = false; });
})();
