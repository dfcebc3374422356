"use strict";
// Draws the models of a run, which `page.py` has sorted and made printable. All data reach the page as textContent, so none of it is read as HTML.
(async () => {
  const PAGE = 100, FEW = 12; // models on a page, and filters of a group that are not under "more"
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) element.setAttribute(name, value);
    element.append(...children.filter((child) => child !== "" && child !== null));
    return element;
  };

  const unpack = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };

  const trouble = (sentence) => { byId("trouble").textContent = sentence; byId("trouble").hidden = false; };
  if (typeof DecompressionStream === "undefined") return trouble("The table of models needs a browser of 2023 or later.");
  const index = await unpack(byId("index")).catch(() => null);
  if (!index) return trouble("The data in this file cannot be read: it is not complete.");

  const { groups, starts, rows } = index; // a row has a list of names for each group
  const verdicts = groups.find((group) => group.title === "Verdict").names;
  rows.forEach((row, place) => {
    const [since, reasons, [verdict]] = row.groups; // `since` has the kinds of change since the earlier run
    const text = [row.model, row.message, ...row.groups.flat(), ...row.nodes].join("\n").toLowerCase();
    Object.assign(row, { since, reasons, verdict, text, place });
  });
  const COLUMNS = {
    Model: (row) => row.model,
    Verdict: (row) => verdicts.indexOf(row.verdict),
    Reasons: (row) => row.reasons.join(),
    Findings: (row) => row.count,
    Message: (row) => row.message,
  };
  const state = { chosen: groups.map(() => new Set()), words: [], column: "Verdict", descending: false, page: 0, found: rows };

  // Filters
  const filters = [];
  const drawFilter = (g, name) => {
    const bar = make("span", { class: "bar" }), count = make("span", { class: "count" });
    const label = make("span", { class: groups[g].title === "Verdict" ? name : "" }, name);
    const button = make("button", { type: "button", class: "filter", "aria-pressed": "false" }, bar, label, count);
    button.addEventListener("click", () => { if (!state.chosen[g].delete(name)) state.chosen[g].add(name); update(); });
    filters.push({ g, name, button, bar, count });
    return make("li", {}, button);
  };
  groups.forEach(({ title, names }, g) => {
    if (!names.length) return;
    const items = names.map((name) => drawFilter(g, name)), rest = items.splice(FEW);
    const more = rest.length ? make("details", {}, make("summary", {}, `${number(rest.length)} more`), make("ul", {}, ...rest)) : null;
    const group = make("details", { class: "group", "aria-label": title }, make("summary", {}, title), make("ul", {}, ...items), more);
    group.open = title === "Reason" || !matchMedia("(max-width: 48rem)").matches; // on a small screen, closed groups keep the models in sight
    byId("filters").append(group);
  });

  const passes = (row, g) => !state.chosen[g].size || row.groups[g].some((name) => state.chosen[g].has(name));
  const update = () => {
    const counts = groups.map(() => new Map());
    state.found = rows.filter((row) => {
      if (!state.words.every((word) => row.text.includes(word))) return false;
      const failed = groups.map((_, g) => g).filter((g) => !passes(row, g));
      groups.forEach((_, g) => { // a bar counts the models that the filters of all other groups let through
        if (failed.some((other) => other !== g)) return;
        for (const name of row.groups[g]) counts[g].set(name, (counts[g].get(name) ?? 0) + 1);
      });
      return !failed.length;
    });
    for (const { g, name, button, bar, count } of filters) {
      const models = counts[g].get(name) ?? 0;
      count.textContent = number(models);
      bar.style.width = `${(100 * models) / groups[g].largest}%`;
      button.classList.toggle("none", models === 0);
      button.setAttribute("aria-pressed", String(state.chosen[g].has(name)));
    }
    const key = COLUMNS[state.column], sign = state.descending ? -1 : 1;
    if (state.column !== "Verdict" || state.descending) state.found.sort((a, b) => sign * compare(key(a), key(b)) || a.place - b.place);
    for (const head of heads.values()) head.removeAttribute("aria-sort");
    heads.get(state.column).setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    byId("clear").disabled = !state.words.length && state.chosen.every((chosen) => !chosen.size);
    state.page = 0;
    drawPage();
  };

  // The table
  const heads = new Map(Object.keys(COLUMNS).map((column) => {
    const button = make("button", { type: "button" }, column);
    button.addEventListener("click", () => {
      state.descending = state.column === column ? !state.descending : column === "Findings";
      state.column = column;
      update();
    });
    const head = make("th", { role: "columnheader", scope: "col" }, button);
    byId("heads").append(head);
    return [column, head];
  }));

  const drawRow = (row) => {
    const controls = { "aria-expanded": String(Boolean(row.detail)), "aria-controls": `detail-${row.at}` };
    row.button = make("button", { type: "button", class: "open", ...controls }, row.model);
    row.button.addEventListener("click", () => toggle(row));
    const cell = (properties, ...children) => make("td", { role: "cell", ...properties }, ...children);
    const marks = row.since.filter((word) => word !== "same").map((word) => make("span", { class: `since ${word}` }, word));
    row.element = make(
      "tr", { role: "row" },
      cell({}, row.button, ...marks),
      cell({ class: row.verdict }, row.verdict),
      cell({}, row.reasons.join(", ")),
      cell({ class: "number", "data-count": row.count }, number(row.count)),
      cell({}, make("span", { class: "message" }, row.message)),
    );
    return row.detail ? [row.element, row.detail] : [row.element];
  };

  const drawPage = () => {
    const start = state.page * PAGE, found = state.found.length, shown = state.found.slice(start, start + PAGE);
    byId("rows").replaceChildren(...shown.flatMap(drawRow));
    byId("range").textContent = found ? `${number(start + 1)} to ${number(start + shown.length)} of ${number(found)}` : "";
    byId("previous").disabled = !state.page;
    byId("next").disabled = start + PAGE >= found;
    document.querySelector(".pager").hidden = found <= PAGE;
    byId("status").textContent = `${found === rows.length ? "" : `${number(found)} of `}${number(rows.length)} model${rows.length === 1 ? "" : "s"}`;
  };

  // Details
  const chunks = [...document.querySelectorAll("script.chunk")];
  const unpacked = new Map();
  const load = async (row) => {
    const chunk = starts.findLastIndex((start) => start <= row.at);
    if (!unpacked.has(chunk)) unpacked.set(chunk, unpack(chunks[chunk]));
    return (await unpacked.get(chunk))[row.at - starts[chunk]];
  };

  const drawFinding = ([reason, operator, engine, defect, node, message]) => {
    const what = make("div", { class: "what" }, make("strong", {}, reason));
    if (operator || node) what.append(make("span", {}, operator, operator && node ? " " : "", node ? make("code", {}, node) : ""));
    if (engine) what.append(make("span", {}, engine));
    if (defect) what.append(make("span", { class: "quiet" }, defect));
    return make("li", {}, what, message ? make("div", {}, message) : null);
  };

  const drawDetail = (row, { facts, findings, stderr, result }) => {
    const drawFact = ([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, make("code", {}, value)));
    const parts = [row.message ? make("p", {}, row.message) : null, make("dl", { class: "facts" }, ...facts.map(drawFact))];
    if (findings.length) parts.push(make("h3", {}, "Findings"), make("ul", { class: "findings" }, ...findings.map(drawFinding)));
    if (stderr) parts.push(make("h3", {}, "Last lines of stderr"), make("pre", { tabindex: "0" }, stderr));
    if (result) {
      const text = make("pre", { tabindex: "0", "aria-label": "Result" });
      const details = make("details", {}, make("summary", {}, `Result, ${number(result.length)} characters of JSON`), text);
      details.addEventListener("toggle", () => { text.textContent ||= result; }); // not earlier, because it may be large
      parts.push(details);
    }
    parts.push(make("p", {}, make("a", { href: `#model=${encodeURIComponent(row.model)}` }, "link to this model")));
    return parts.filter(Boolean);
  };

  const toggle = async (row, isOpen = !row.detail) => {
    row.button.setAttribute("aria-expanded", String(isOpen));
    if (isOpen === Boolean(row.detail)) return;
    if (!isOpen) {
      row.detail.remove();
      row.detail = null;
      return;
    }
    const cell = make("td", { role: "cell", class: "detail", colspan: heads.size });
    row.detail = make("tr", { role: "row", id: `detail-${row.at}` }, cell);
    row.element.after(row.detail);
    cell.append(...await load(row).then((detail) => drawDetail(row, detail), () => ["The data of this model cannot be read."]));
  };

  const goToHash = async () => {
    if (!location.hash.startsWith("#model=")) return;
    let name;
    try { name = decodeURIComponent(location.hash.slice("#model=".length)); } catch { return; }
    const row = rows.find((one) => one.model === name);
    if (!row) return;
    clear(); // a filter may hide the row
    state.page = Math.floor(state.found.indexOf(row) / PAGE);
    drawPage();
    await toggle(row, true);
    row.button.focus({ preventScroll: true });
    row.element.scrollIntoView();
  };

  // Controls
  const clear = () => { state.chosen.forEach((chosen) => chosen.clear()); state.words = []; byId("search").value = ""; update(); };
  byId("search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    update();
  });
  byId("clear").addEventListener("click", () => { clear(); byId("search").focus(); });
  const turn = (by) => { state.page += by; drawPage(); byId("models-section").scrollIntoView(); };
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  addEventListener("hashchange", goToHash);

  byId("filters-section").hidden = byId("models-section").hidden = false;
  update();
  performance.mark("table");
  await goToHash();
  document.documentElement.dataset.ready = "yes";
})();
