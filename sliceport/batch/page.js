"use strict";
// Draws the models of a run. Everything from the data reaches the page as textContent, with what is unseen escaped.
(async () => {
  const PAGE = 100, FEW = 12;
  const VERDICTS = ["error", "crash", "timeout", "memory", "lost", "finding", "clean"];
  const SINCE = ["new", "fixed", "changed", "added", "same"];
  const COLUMNS = ["Model", "Verdict", "Reasons", "Findings", "Message"];
  const GROUPS = [
    ["Since the earlier run", (row) => row.since],
    ["Reason", (row) => row.reasons],
    ["Verdict", (row) => [row.verdict]],
    ["Operator", (row) => row.operators],
    ["Engine", (row) => row.engines],
    ["Defect", (row) => row.defects],
  ];
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");

  // Control, format, direction and zero-width characters, lone surrogates, and blanks other than a space, as escapes.
  const escapeOne = (char) => {
    const code = char.codePointAt(0), [letter, digits] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return { 9: "\\t", 10: "\\n", 13: "\\r" }[code] ?? `\\${letter}${code.toString(16).padStart(digits, "0")}`;
  };
  const show = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, escapeOne);

  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      element.setAttribute(name, value);
    }
    for (const child of children) {
      if (child !== "" && child !== null) element.append(child);
    }
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

  const severity = (verdict) => Math.max(VERDICTS.indexOf(verdict), 0);
  const rows = index.rows.map(([model, verdict, reasons, operators, engines, defects, count, message, nodes, since], at) => ({
    model, verdict, reasons, operators, engines, defects, count, message, since, at, severity: severity(verdict),
    text: [model, show(model), verdict, message, ...reasons, ...operators, ...engines, ...defects, ...nodes, ...since].join("\n").toLowerCase(),
  }));
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const isNew = (row) => (row.since.includes("new") ? 0 : 1);
  const byAttention = (a, b) => isNew(a) - isNew(b) || a.severity - b.severity || compare(a.model, b.model) || a.at - b.at;
  rows.sort(byAttention).forEach((row, place) => { row.place = place; });
  const KEYS = { Model: (row) => row.model, Verdict: (row) => row.severity, Reasons: (row) => row.reasons.join(), Findings: (row) => row.count, Message: (row) => row.message };

  const state = { chosen: GROUPS.map(() => new Set()), words: [], column: "Verdict", descending: false, page: 0, found: rows };
  const open = new Map(); // by row, the elements of its detail

  // Filters
  const matchesWords = (row) => state.words.every((word) => row.text.includes(word));
  const fails = (row, g) => state.chosen[g].size && !GROUPS[g][1](row).some((name) => state.chosen[g].has(name));
  const failing = (row) => GROUPS.map((_, g) => g).filter((g) => fails(row, g)); // the groups whose filter hides the row

  const filterGroups = GROUPS.map(([title, names], g) => {
    const totals = new Map();
    for (const row of rows) for (const name of names(row)) totals.set(name, (totals.get(name) ?? 0) + 1);
    const fixed = { Verdict: VERDICTS, "Since the earlier run": SINCE }[title];
    const sorted = [...totals].sort((a, b) => (fixed ? fixed.indexOf(a[0]) - fixed.indexOf(b[0]) : b[1] - a[1] || compare(a[0], b[0])));
    if (!sorted.length) return null;
    const most = Math.max(...totals.values()), buttons = new Map();
    const list = make("ul"), rest = make("ul");
    sorted.forEach(([name], place) => {
      const bar = make("span", { class: "bar" }), count = make("span", { class: "count" });
      const label = make("span", { class: title === "Verdict" && VERDICTS.includes(name) ? name : "" }, show(name));
      const button = make("button", { type: "button", class: "filter", "aria-pressed": "false" }, bar, label, count);
      button.addEventListener("click", () => { if (!state.chosen[g].delete(name)) state.chosen[g].add(name); update(); });
      buttons.set(name, { button, bar, count });
      (place < FEW ? list : rest).append(make("li", {}, button));
    });
    const more = rest.childElementCount ? make("details", {}, make("summary", {}, `${number(rest.childElementCount)} more`), rest) : null;
    const group = make("details", { class: "group", "aria-label": title }, make("summary", {}, title), list, more);
    group.open = title === "Reason" || !matchMedia("(max-width: 48rem)").matches; // models are near where there is little room
    byId("filters").append(group);
    return { buttons, most };
  });

  const countFilters = (counts) => {
    filterGroups.forEach((group, g) => {
      if (!group) return;
      for (const [name, { button, bar, count }] of group.buttons) {
        const models = counts[g].get(name) ?? 0;
        count.textContent = number(models);
        bar.style.width = `${(100 * models) / group.most}%`;
        button.classList.toggle("none", models === 0);
        button.setAttribute("aria-pressed", String(state.chosen[g].has(name)));
      }
    });
  };

  // The table
  const heads = new Map(COLUMNS.map((column) => {
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
    const id = `detail-${row.at}`;
    const button = make("button", { type: "button", class: "open", "aria-expanded": String(open.has(row)), "aria-controls": id }, show(row.model));
    button.addEventListener("click", () => toggle(row));
    const cell = (properties, ...children) => make("td", { role: "cell", ...properties }, ...children);
    const marks = row.since.filter((word) => word !== "same").map((word) => make("span", { class: `since ${word}` }, word));
    row.element = make(
      "tr", { role: "row" },
      cell({}, button, ...marks),
      cell({ class: VERDICTS.includes(row.verdict) ? row.verdict : "error" }, show(row.verdict)),
      cell({}, show(row.reasons.join(", "))),
      cell({ class: "number", "data-count": row.count }, number(row.count)),
      cell({}, make("span", { class: "message" }, show(row.message))),
    );
    row.button = button;
    return open.has(row) ? [row.element, open.get(row)] : [row.element];
  };

  const drawPage = () => {
    const start = state.page * PAGE, shown = state.found.slice(start, start + PAGE);
    byId("rows").replaceChildren(...shown.flatMap(drawRow));
    byId("range").textContent = shown.length ? `${number(start + 1)} to ${number(start + shown.length)} of ${number(state.found.length)}` : "";
    byId("previous").disabled = !state.page;
    byId("next").disabled = start + PAGE >= state.found.length;
    document.querySelector(".pager").hidden = state.found.length <= PAGE;
    byId("status").textContent = state.found.length === rows.length
      ? `${number(rows.length)} model${rows.length === 1 ? "" : "s"}`
      : `${number(state.found.length)} of ${number(rows.length)} models`;
  };

  const update = () => {
    const counts = GROUPS.map(() => new Map());
    const add = (row, g) => {
      for (const name of GROUPS[g][1](row)) counts[g].set(name, (counts[g].get(name) ?? 0) + 1);
    };
    state.found = [];
    for (const row of rows) {
      if (!matchesWords(row)) continue;
      const failed = failing(row);
      if (!failed.length) {
        state.found.push(row);
        for (let g = 0; g < GROUPS.length; g++) add(row, g);
      } else if (failed.length === 1) add(row, failed[0]);
    }
    const key = KEYS[state.column], sign = state.descending ? -1 : 1;
    if (state.column !== "Verdict" || state.descending) state.found.sort((a, b) => sign * compare(key(a), key(b)) || a.place - b.place);
    for (const head of heads.values()) head.removeAttribute("aria-sort");
    heads.get(state.column).setAttribute("aria-sort", state.descending ? "descending" : "ascending");
    byId("clear").disabled = !state.words.length && state.chosen.every((chosen) => !chosen.size);
    countFilters(counts);
    state.page = 0;
    drawPage();
  };

  // Details
  const chunks = [...document.querySelectorAll("script.chunk")];
  const unpacked = new Map();
  const load = async (row) => {
    let chunk = index.starts.length - 1;
    while (index.starts[chunk] > row.at) chunk--;
    if (!unpacked.has(chunk)) unpacked.set(chunk, unpack(chunks[chunk]));
    return (await unpacked.get(chunk))[row.at - index.starts[chunk]];
  };

  const drawFinding = ([reason, operator, engine, defect, node, message]) => {
    const what = make("div", { class: "what" }, make("strong", {}, show(reason)));
    if (operator || node) what.append(make("span", {}, show(operator), operator && node ? " " : "", node ? make("code", {}, show(node)) : ""));
    if (engine) what.append(make("span", {}, show(engine)));
    if (defect) what.append(make("span", { class: "quiet" }, show(defect)));
    return make("li", {}, what, message ? make("div", {}, show(message)) : null);
  };

  const drawDetail = (row, detail) => {
    const facts = make("dl", { class: "facts" });
    const fact = (name, value) => value && facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, make("code", {}, value))));
    fact("Key", detail.key);
    fact("Input shapes", show(detail.input_shapes));
    fact("Output", detail.output && show(detail.output));
    const parts = [row.message ? make("p", {}, show(row.message)) : null, facts];
    if (detail.findings.length) parts.push(make("h3", {}, "Findings"), make("ul", { class: "findings" }, ...detail.findings.map(drawFinding)));
    if (detail.stderr.length) parts.push(make("h3", {}, "Last lines of stderr"), make("pre", { tabindex: "0" }, detail.stderr.map(show).join("\n")));
    if (detail.result) {
      const text = make("pre", { tabindex: "0", "aria-label": "Result" });
      const result = make("details", {}, make("summary", {}, `Result, ${number(detail.result.length)} characters of JSON`), text);
      result.addEventListener("toggle", () => { text.textContent ||= detail.result.split("\n").map(show).join("\n"); });
      parts.push(result);
    }
    parts.push(make("p", {}, make("a", { href: `#model=${encodeURIComponent(show(row.model))}` }, "link to this model")));
    return parts.filter(Boolean);
  };

  const toggle = async (row, isOpen = !open.has(row)) => {
    if (!isOpen) {
      open.get(row)?.remove();
      open.delete(row);
      row.button.setAttribute("aria-expanded", "false");
      return;
    }
    if (open.has(row)) return;
    const cell = make("td", { role: "cell", class: "detail", colspan: COLUMNS.length });
    open.set(row, make("tr", { role: "row", id: `detail-${row.at}` }, cell));
    row.element.after(open.get(row));
    row.button.setAttribute("aria-expanded", "true");
    const parts = await load(row).then((detail) => drawDetail(row, detail), () => ["The data of this model cannot be read."]);
    cell.append(...parts);
  };

  const goToHash = async () => {
    if (!location.hash.startsWith("#model=")) return;
    let name;
    try { name = decodeURIComponent(location.hash.slice("#model=".length)); } catch { return; }
    const row = rows.find((one) => show(one.model) === name);
    if (!row) return;
    clear();
    update(); // before the row is looked for: a filter may have hidden it
    state.page = Math.floor(state.found.indexOf(row) / PAGE);
    drawPage();
    await toggle(row, true);
    row.button.focus({ preventScroll: true });
    row.element.scrollIntoView();
  };

  // Controls
  const clear = () => { state.chosen.forEach((chosen) => chosen.clear()); state.words = []; byId("search").value = ""; };
  byId("search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    update();
  });
  byId("clear").addEventListener("click", () => { clear(); update(); byId("search").focus(); });
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
