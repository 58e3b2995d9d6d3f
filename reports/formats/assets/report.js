"use strict";
(() => {
  const data = JSON.parse(document.getElementById("payload").textContent);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const one = (selector, root = document) => root.querySelector(selector);
  const make = (name, text) => { const e = document.createElement(name); if (text !== undefined) e.textContent = text; return e; };

  for (const element of all("[data-needs-script]")) element.hidden = false;

  // --- the contents are folded on a phone
  if (matchMedia("(max-width: 60rem)").matches) one("nav details").open = false;

  // --- light and dark
  const theme = one(".theme");
  const isDark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", nameTheme);
  nameTheme();

  // --- the tooltip: a title, and lines of name and value or a sentence, always as text
  const tip = document.getElementById("tip");
  function showTip(title, lines, x, y) {
    const list = typeof lines === "string" ? make("span", lines) : make("dl");
    if (typeof lines !== "string") for (const [name, value] of lines) {
      const line = make("div");
      line.append(make("dt", name), make("dd", value));
      list.append(line);
    }
    tip.replaceChildren(make("strong", title), list);
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight, room = document.documentElement.clientWidth;
    const above = y - height - 12 > scrollY;
    tip.style.left = `${Math.max(8, Math.min(x - width / 2, room - width - 8))}px`;
    tip.style.top = `${above ? y - height - 12 : y + 22}px`;
  }
  const hideTip = () => { tip.hidden = true; };
  const middle = (element) => {
    const box = element.getBoundingClientRect();
    return [box.left + box.width / 2 + scrollX, box.top + scrollY];
  };
  addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

  // --- which heads are kept: a method and a budget
  const state = { view: data.view || 0, budget: data.budget || 0 };
  const views = data.views || [], budgets = data.budgets || [];
  const cells = all(".cell[data-head]");

  const methods = views.filter((view) => view.kept.length && !view.keeping.length);
  const keeping = (view, head) => parseInt(view.keeping[state.budget][head], 36);

  function lines(head) {
    const view = views[state.view];
    const known = [];
    if (view.kept.length && !view.keeping.length) {
      const stays = view.kept[state.budget][head] === "1";
      known.push([view.name, `${stays ? "kept" : "removed"} at ${budgets[state.budget].share}`]);
    }
    const often = data.frequency && data.frequency.times[state.view];
    if (often && often[state.budget][head] >= 0) {
      known.push(["random halves", `kept in ${often[state.budget][head]} of ${data.frequency.halves}`]);
    }
    if (view.ranks.length) {
      known.push(["score", view.values[head]]);
      if (view.ranks[head]) known.push(["rank", `${view.ranks[head]} of ${data.heads.length}`]);
    }
    known.push(...data.facts[head]);
    if (methods.length > 1 && view.kept.length) {
      const names = methods.filter((v) => v.kept[state.budget][head] === "1").map((v) => v.name);
      known.push([`kept by ${names.length} of ${methods.length}`, names.join(", ") || "none"]);
    }
    return known;
  }

  const roles = data.roles || [];
  function paint(cell, view, head, small) {
    const step = view.keeping.length ? Math.floor(6 * keeping(view, head) / methods.length) : view.steps[head];
    const stays = view.kept.length ? (view.kept[state.budget][head] === "1" ? "kept" : "removed") : "";
    const shade = view.byRole ? (roles[head] === "not looked at" ? "unseen" : "seen") : step === "x" ? "unknown" : `${view.shades}${step}`;
    cell.setAttribute("class", `cell ${stays} ${shade}`);
    if (small) return;
    const rank = view.ranks[head] ? `rank ${view.ranks[head]}` : "";
    const words = [data.heads[head], stays, rank, data.verdicts[head], roles[head]];
    cell.setAttribute("aria-label", words.filter(Boolean).join(", "));
  }

  function update() {
    const view = views[state.view];
    for (const cell of cells) paint(cell, view, Number(cell.dataset.head), false);
    for (const grid of all("figure.grids svg.heads")) grid.classList.toggle("by-role", view.byRole);
    all("figure.multiples svg.heads").forEach((svg) => {
      const other = views[Number(svg.dataset.view)];
      if (other) all(".cell", svg).forEach((cell) => paint(cell, other, Number(cell.dataset.of), true));
    });
    if (budgets.length) {
      const { heads, share } = budgets[state.budget];
      one(".budget output").textContent = `${heads} (${share})`;
      one("#budget").setAttribute("aria-valuetext", `${heads} heads, ${share}`);
      const count = (wanted) => data.heads.filter((_, head) => wanted(head)).length;
      let text = view.byRole ? data.roleSummary.slice(0, -1) : view.keeping.length
        ? `Kept by all methods: ${count((head) => keeping(view, head) === methods.length)}; by none: `
          + `${count((head) => keeping(view, head) === 0)}; disputed: `
          + `${count((head) => keeping(view, head) % methods.length > 0)} of ${data.heads.length} heads`
        : `${view.name} keeps ${count((head) => view.kept[state.budget][head] === "1")} of ${data.heads.length} heads`;
      const left = view.left[state.budget];
      if (left.length) text += `; ${data.metric} ${left[0]}`;
      if (left.length > 1) text += `, random masks with as many heads in every layer ${left[1]}`;
      one(".summary").textContent = `${text}. ${view.survival[state.budget]}`.trim();
      for (const caption of all("figure.multiples figcaption span")) {
        caption.textContent = `All methods side by side with ${share} of the heads removed.`;
      }
      markBudget();
    } else if (one(".summary")) {
      one(".summary").hidden = !view.byRole;
      one(".summary").textContent = view.byRole ? data.roleSummary : "";
    }
    showAgreement();
  }

  const form = one("form.choices");
  if (form) {
    form.addEventListener("input", (event) => {
      if (event.target.name === "view") state.view = Number(event.target.value);
      if (event.target.name === "budget") state.budget = Number(event.target.value);
      hideTip();
      update();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
  }

  for (const target of all("[data-head]")) {
    const show = () => {
      const head = Number(target.dataset.head);
      const known = target.closest("figure.scores") ? scoreLines(head) : lines(head);
      showTip(data.heads[head], known, ...middle(target));
    };
    target.addEventListener("pointerenter", show);
    target.addEventListener("pointerleave", hideTip);
    target.addEventListener("focus", show);
    target.addEventListener("blur", hideTip);
    target.addEventListener("click", show);
  }

  // One head of each grid can be reached by Tab, the others from there by arrows.
  for (const grid of all("svg.heads[role=grid]")) {
    const rows = all("[role=row]", grid).map((row) => all(".cell", row));
    if (rows[0]) rows[0][0].setAttribute("tabindex", "0");
    grid.addEventListener("keydown", (event) => {
      const row = rows.findIndex((line) => line.includes(document.activeElement));
      if (row < 0) return;
      const column = rows[row].indexOf(document.activeElement);
      const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      let next;
      if (event.key in steps) {
        const [down, right] = steps[event.key];
        next = (rows[row + down] || [])[column + right];
      } else if (event.key === "Home") next = rows[row][0];
      else if (event.key === "End") next = rows[row].at(-1);
      else return;
      event.preventDefault();
      if (!next) return;
      document.activeElement.setAttribute("tabindex", "-1");
      next.setAttribute("tabindex", "0");
      next.focus();
    });
  }

  // --- curves: a cursor that shows every method's value
  const charts = all("svg.interactive");
  function moveCursor(svg, share) {
    const cursor = one(".cursor", svg);
    const start = Number(svg.dataset.start), end = Number(svg.dataset.end);
    const x = start + share * (end - start);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
    return x;
  }
  function markBudget() {
    if (!budgets.length) return;
    for (const svg of all("svg.mini")) moveCursor(svg, budgets[state.budget].at);
    if (!data.curves || !budgets.length) return;
    const at = data.curves.labels.indexOf(budgets[state.budget].share);
    if (at >= 0) for (const svg of charts) moveCursor(svg, data.curves.shares[at]);
  }
  for (const svg of charts) {
    let at = 0;
    const show = () => {
      const x = moveCursor(svg, data.curves.shares[at]);
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const values = data.curves.lines.map((line) => [line.name, line.values[at] ?? "–"]);
      showTip(`${data.curves.labels[at]} removed`, values, box.left + scrollX + x * scale, box.top + scrollY + 24);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = box.width / svg.viewBox.baseVal.width;
      const start = Number(svg.dataset.start), end = Number(svg.dataset.end);
      const share = ((event.clientX - box.left) / scale - start) / (end - start);
      at = data.curves.shares.reduce((best, value, i, list) =>
        Math.abs(value - share) < Math.abs(list[best] - share) ? i : best, 0);
      show();
    });
    const leave = () => { hideTip(); markBudget(); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("focus", show);
    svg.addEventListener("blur", leave);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      event.preventDefault();
      at = Math.max(0, Math.min(data.curves.shares.length - 1, at + step));
      show();
    });
    // A method's name or line under the pointer stands out from the others.
    for (const item of all("[data-series]", svg)) {
      item.addEventListener("pointerenter", () => {
        for (const other of all("[data-series]", svg)) {
          other.classList.toggle("faded", other.dataset.series !== item.dataset.series);
        }
      });
      item.addEventListener("pointerleave", () => {
        for (const other of all("[data-series]", svg)) other.classList.remove("faded");
      });
    }
  }

  // --- agreement: another coefficient in the same matrix
  const chooser = one("select[name=coefficient]");
  if (chooser && data.agreement) {
    for (const [name, { title }] of Object.entries(data.agreement)) {
      const option = make("option", title);
      option.value = name;
      chooser.append(option);
    }
    chooser.addEventListener("input", showAgreement);
  }
  function showAgreement() {
    if (!chooser || !data.agreement) return;
    const { title, cells: tables } = data.agreement[chooser.value];
    const known = tables.length > 1 ? tables[state.budget] : tables[0];
    for (const pair of all("figure.agreement .pair[data-pair]")) {
      const [step, text, full] = known[pair.dataset.pair] || ["", "", ""];
      pair.setAttribute("class", text ? `pair d${step}` : "pair same");
      one("text", pair).textContent = text;
      one("title", pair).textContent = full;
    }
    const where = tables.length > 1 ? ` with ${budgets[state.budget].share} of the heads removed (chosen above)` : "";
    const own = known["0,0"] ? " On the diagonal: of a method with itself on other examples." : "";
    one("figure.agreement figcaption span").textContent = `Agreement of each two methods: ${title}${where}.${own}`;
  }

  // --- scores of two methods against each other
  const scatter = one("figure.scores svg.chart"), choosers = all("figure.scores select");
  const svgElement = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const chosenAxes = () => choosers.map((chooser) => data.scores.axes[Number(chooser.value)]);
  function scoreLines(head) {
    const known = chosenAxes().map(({ name }) => [name, views.find((view) => view.name === name).values[head]]);
    return [...known, ...data.facts[head]];
  }
  function showScores() {
    const [x, y] = chosenAxes(), [left, right, bottom, top] = data.scores.frame;
    const across = (at) => (left + at * (right - left)).toFixed(1), up = (at) => (bottom + at * (top - bottom)).toFixed(1);
    for (const point of all(".point", scatter)) {
      const a = x.at[point.dataset.head], b = y.at[point.dataset.head];
      point.setAttribute("visibility", a === null || b === null ? "hidden" : "visible");
      point.setAttribute("transform", `translate(${across(a ?? 0)} ${up(b ?? 0)})`);
    }
    const tick = (where, line, text, words) => {
      const made = svgElement("g", { transform: where });
      made.append(svgElement("line", { ...line, class: "rule" }), svgElement("text", { ...text, class: "tick" }, words));
      return made;
    };
    one(".below", scatter).replaceChildren(...x.ticks.map(([at, words]) => tick(
      `translate(${across(at)} 0)`, { y1: top, y2: bottom }, { y: bottom + 20, "text-anchor": "middle" }, words)));
    one(".beside", scatter).replaceChildren(...y.ticks.map(([at, words]) => tick(
      `translate(0 ${up(at)})`, { x1: left, x2: right }, { x: left - 7, dy: ".35em", "text-anchor": "end" }, words)));
    one(".name-x", scatter).textContent = x.title;
    one(".name-y", scatter).textContent = y.title;
    scatter.setAttribute("aria-label", `${y.name} against ${x.name}: the score of every head by both`);
    one("figure.scores figcaption span").textContent = data.scores.captions[choosers[0].value][choosers[1].value];
  }
  if (scatter && data.scores) {
    choosers.forEach((chooser, place) => {
      data.scores.axes.forEach(({ name }, number) => {
        const option = make("option", name);
        option.value = number;
        chooser.append(option);
      });
      chooser.value = data.scores.pair[place];
      chooser.addEventListener("input", showScores);
    });
  }

  // --- tables: explain a column, sort by it, filter by words
  function explain(heading, button) {
    const about = heading.title, name = button.textContent;
    heading.removeAttribute("title"); // the page's own tooltip comes at once, and to the keyboard too
    button.setAttribute("aria-description", about);
    const show = () => showTip(name, about, ...middle(heading));
    for (const event of ["mouseenter", "focusin"]) heading.addEventListener(event, show);
    for (const event of ["mouseleave", "focusout"]) heading.addEventListener(event, hideTip);
  }
  const unfold = () => {
    const target = location.hash.startsWith("#columns-") && document.getElementById(location.hash.slice(1));
    if (target) target.open = true;
  };
  addEventListener("hashchange", unfold);
  unfold();
  for (const table of all("table")) {
    const body = table.tBodies[0];
    all("th", table).forEach((heading, column) => {
      const button = make("button", heading.textContent);
      button.type = "button";
      heading.replaceChildren(button);
      if (heading.title) explain(heading, button);
      button.addEventListener("click", () => {
        const down = heading.getAttribute("aria-sort") === "ascending";
        for (const other of all("th", table)) other.removeAttribute("aria-sort");
        heading.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          if (!heading.classList.contains("n")) return cell.textContent;
          return "v" in cell.dataset ? Number(cell.dataset.v) : NaN;
        };
        const order = (a, b) => {
          const x = key(a), y = key(b);
          if (typeof x === "string") return (down ? -1 : 1) * x.localeCompare(y, "en", { numeric: true });
          if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y); // last, always
          return (down ? -1 : 1) * (x - y);
        };
        body.append(...[...body.rows].sort(order));
      });
    });
  }
  for (const field of all(".filter input")) {
    const rows = [...document.getElementById(field.getAttribute("aria-controls")).tBodies[0].rows];
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/[\s,]+/).filter(Boolean);
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
      }
    });
  }

  if (views.length) update();
})();
