"use strict";
// Draws the page's charts from its one block of data and keeps their step range together.
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const views = [];
  let range = [0, page.bins - 1];
  let shown = -1;

  // A chart that cannot be drawn says why in its own place; an empty frame would look like a finding.
  const fail = (box, why) => {
    const note = document.createElement("p");
    note.className = "na";
    note.setAttribute("role", "alert");
    note.textContent = `n/a: ${why}`;
    box.replaceChildren(note);
    root.dataset.errors = 1 + Number(root.dataset.errors ?? 0);
  };
  addEventListener("error", (event) => fail(document.getElementById("script-error"), event.message));

  // One rank alone, or all of them: heat maps keep its row, tables the rows that are about it.
  const ranks = document.getElementById("rank-range");
  const setRank = async (rank) => {
    shown = rank;
    ranks.querySelector("input").value = rank < 0 ? "" : rank;
    document.querySelectorAll("tr[data-rank]").forEach((row) => { row.hidden = rank >= 0 && Number(row.dataset.rank) !== rank; });
    for (const { view } of views.filter(({ params }) => params.has("shown_rank"))) await view.signal("shown_rank", rank).runAsync();
  };
  ranks?.addEventListener("change", (event) => setRank(event.target.value === "" ? -1 : Number(event.target.value)));
  ranks?.querySelector("button").addEventListener("click", () => setRank(-1));

  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    return (columns[names[0]] ?? []).map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
  };
  const dataNames = (node) =>
    node === null || typeof node !== "object" ? [] : Object.entries(node).flatMap(([key, child]) =>
      key === "data" && typeof child?.name === "string" ? [child.name] : dataNames(child));

  // Each chart gets rows of its own: Vega writes into the objects it is given.
  const draw = async ({ id, spec, renderer, is_brushed }) => {
    const box = document.getElementById(id);
    const names = [...new Set(dataNames(spec))];
    const datasets = Object.fromEntries(names.map((name) => [name, rowsOf(page.datasets[name] ?? {})]));
    const empty = names.filter((name) => datasets[name].length === 0);
    if (names.length === 0 || empty.length > 0) return fail(box, `the page has no rows named "${empty.join('", "')}"`);
    const config = page.config[dark.matches ? "dark" : "light"];
    const options = { mode: "vega-lite", actions: false, renderer, config, tooltip: { theme: dark.matches ? "dark" : "light" } };
    const { view } = await vegaEmbed(box, { ...spec, datasets }, options);
    views.push({ view, params: new Set((spec.params ?? []).map((param) => param.name)) });
    if (ranks) view.addEventListener("click", (_, item) => { if (Number.isInteger(item?.datum?.rank)) setRank(item.datum.rank); });
    let brushed = null;
    if (is_brushed) {
      view.addSignalListener("brush", (_, brush) => { brushed = brush.bin ?? null; });
      const zoom = () => {
        if (brushed) setRange(Math.max(0, Math.round(brushed[0])), Math.min(page.bins - 1, Math.round(brushed[1])));
        brushed = null;
        view.signal("brush_x", []).runAsync();
      };
      box.onpointerdown = () => addEventListener("pointerup", zoom, { once: true }); // it may end outside the chart
    }
  };
  const drawAll = async () => {
    views.splice(0).forEach(({ view }) => view.finalize());
    for (const chart of page.charts) {
      await draw(chart).catch((error) => fail(document.getElementById(chart.id), error.message));
      await new Promise((done) => setTimeout(done)); // let the page be painted and used between two charts
    }
    await setRange(...range);
    if (ranks) await setRank(shown);
    root.dataset.state = "ready";
  };

  const controls = document.getElementById("step-range");
  const [from, to] = controls?.querySelectorAll("input") ?? [];
  const setRange = async (first, last) => {
    if (page.bins === 0) return; // the page has no range of steps
    range = [Math.min(first, last), Math.max(first, last)];
    if (controls) {
      from.value = page.datasets.step_bins.first_step[range[0]];
      to.value = page.datasets.step_bins.last_step[range[1]];
    }
    for (const { view } of views.filter(({ params }) => params.has("first_bin")))
      await view.signal("first_bin", range[0]).signal("last_bin", range[1]).runAsync();
  };
  controls?.addEventListener("change", () => {
    const { first_step, last_step } = page.datasets.step_bins;
    const first = last_step.findIndex((step) => step >= Number(from.value));
    const last = first_step.findLastIndex((step) => step <= Number(to.value));
    setRange(first < 0 ? page.bins - 1 : first, Math.max(0, last));
  });
  controls?.querySelector("button").addEventListener("click", () => setRange(0, page.bins - 1));

  document.querySelectorAll("table.sortable").forEach((table) => table.querySelectorAll("thead button").forEach((button) =>
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const body = table.tBodies[0];
      const up = head.ariaSort === "descending" || (head.ariaSort === null && head.className !== "number");
      const key = (row) => row.cells[head.cellIndex].dataset.sort ?? row.cells[head.cellIndex].textContent;
      const last = (a, b) => Number(a.className === "rest") - Number(b.className === "rest");
      const order = (a, b) => (head.className === "number" ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b)));
      table.querySelectorAll("th").forEach((other) => { other.ariaSort = null; });
      head.ariaSort = up ? "ascending" : "descending";
      body.append(...[...body.rows].sort((a, b) => last(a, b) || (up ? order(a, b) : order(b, a))));
    })));

  dark.addEventListener("change", drawAll);
  drawAll();
})();
