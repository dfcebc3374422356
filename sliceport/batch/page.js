"use strict";
// Draws the models of a run. Everything from the data reaches the page as textContent, with what is unseen escaped.
(async () => {
  const PAGE = 100, FEW = 12, MANY = 50;
  const VERDICTS = ["error", "crash", "timeout", "memory", "lost", "finding", "clean"];
  const SINCE = ["new", "fixed", "changed", "added", "same"];
  const COLUMNS = ["Model", "Verdict", "Reasons", "Findings", "Message"];
  const GROUPS = [
    ["Since the earlier run", (row) => row.since],
    ["Verdict", (row) => [row.verdict]],
    ["Reason", (row) => row.reasons],
    ["Operator", (row) => row.operators],
    ["Engine", (row) => row.engines],
    ["Defect", (row) => row.defects],
  ];
  const byId = (id) => document.getElementById(id);
  const number = (value) => value.toLocaleString("en");

  // Control, format, direction and zero-width characters, lone surrogates, and blanks other than a space, as escapes.
  const escapeOne = (char) => {
    const code = char.codePointAt(0);
    const short = { 9: "\\t", 10: "\\n", 13: "\\r" }[code];
    if (short) return short;
    if (code < 0x100) return "\\x" + code.toString(16).padStart(2, "0");
    return code < 0x10000 ? "\\u" + code.toString(16).padStart(4, "0") : "\\U" + code.toString(16).padStart(8, "0");
  };
  const show = (text) => text.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, escapeOne);

  const make = (tag, properties = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(properties)) {
      if (name === "class") element.className = value;
      else if (name === "on") element.addEventListener(...value);
      else if (value !== null) element.setAttribute(name, value);
    }
    for (const child of children) {
      if (child instanceof Node) element.append(child);
      else if (child !== "" && child !== null) element.append(document.createTextNode(child));
    }
    return element;
  };

  const unpack = (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (char) => char.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  };

  // JSON text, indented. It is not parsed: an integer beyond 2^53 stays what it is.
  const indent = (text) => {
    const tokens = text.match(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g) ?? [];
    const parts = [];
    let depth = 0;
    const newLine = () => parts.push("\n" + "  ".repeat(depth));
    for (let i = 0; i < tokens.length; i++) {
      const token = tokens[i];
      if (token === "[" || token === "{") {
        let end = i + 1;
        if (token === "[") while (tokens[end] === "," || /^[-\d"ntf]/.test(tokens[end] ?? "]")) end++;
        if (tokens[end] === "]" && token === "[" || tokens[end] === "}" && end === i + 1) {
          parts.push(tokens.slice(i, end + 1).map((one) => (one === "," ? ", " : show(one))).join(""));
          i = end;
        } else {
          parts.push(token);
          depth++;
          newLine();
        }
      } else if (token === "]" || token === "}") {
        depth--;
        newLine();
        parts.push(token);
      } else if (token === ",") {
        parts.push(",");
        newLine();
      } else parts.push(token === ":" ? ": " : show(token));
    }
    return parts.join("");
  };

  const trouble = (sentence) => {
    byId("trouble").textContent = sentence;
    byId("trouble").hidden = false;
  };
  if (typeof DecompressionStream === "undefined") {
    trouble("The table of models needs a browser of 2023 or later.");
    return;
  }
  let index;
  try {
    index = await unpack(byId("index"));
  } catch {
    trouble("The data in this file cannot be read: it is not complete.");
    return;
  }

  const severity = (verdict) => Math.max(VERDICTS.indexOf(verdict), 0);
  const rows = index.rows.map(([model, verdict, reasons, operators, engines, defects, count, message, nodes, since], at) => ({
    model, verdict, reasons, operators, engines, defects, count, message, since, at,
    severity: severity(verdict),
    text: [model, show(model), verdict, message, ...reasons, ...operators, ...engines, ...defects, ...nodes, ...since].join("\n").toLowerCase(),
  }));
  const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
  const isNew = (row) => (row.since.includes("new") ? 0 : 1);
  const byAttention = (a, b) => isNew(a) - isNew(b) || a.severity - b.severity || compare(a.model, b.model) || a.at - b.at;
  rows.sort(byAttention);
  rows.forEach((row, place) => { row.place = place; });
  const ORDERS = {
    Model: (a, b) => compare(a.model, b.model),
    Verdict: (a, b) => a.severity - b.severity,
    Reasons: (a, b) => compare(a.reasons.join(), b.reasons.join()),
    Findings: (a, b) => a.count - b.count,
    Message: (a, b) => compare(a.message, b.message),
  };

  const state = { chosen: GROUPS.map(() => new Set()), words: [], column: "Verdict", descending: false, page: 0, found: rows };
  const open = new Map(); // by row, the elements of its detail

  // Filters
  const matchesWords = (row) => state.words.every((word) => row.text.includes(word));
  const failing = (row) => { // the groups whose filter the row fails
    const groups = [];
    GROUPS.forEach(([, names], g) => {
      if (state.chosen[g].size && !names(row).some((name) => state.chosen[g].has(name))) groups.push(g);
    });
    return groups;
  };

  const filterGroups = GROUPS.map(([title, names], g) => {
    const totals = new Map();
    for (const row of rows) for (const name of names(row)) totals.set(name, (totals.get(name) ?? 0) + 1);
    const fixed = { Verdict: VERDICTS, "Since the earlier run": SINCE }[title];
    const sorted = [...totals].sort((a, b) => (fixed ? fixed.indexOf(a[0]) - fixed.indexOf(b[0]) : b[1] - a[1] || compare(a[0], b[0])));
    if (!sorted.length) return null;
    const most = Math.max(...totals.values());
    const buttons = new Map();
    const list = make("ul");
    sorted.forEach(([name], place) => {
      const bar = make("span", { class: "bar" });
      const count = make("span", { class: "count" });
      const label = make("span", { class: title === "Verdict" && VERDICTS.includes(name) ? name : "" }, show(name));
      const button = make("button", { type: "button", class: "filter", "aria-pressed": "false" }, bar, label, count);
      button.addEventListener("click", () => {
        const chosen = state.chosen[g];
        if (!chosen.delete(name)) chosen.add(name);
        update();
      });
      const item = make("li", {}, button);
      item.hidden = place >= FEW;
      buttons.set(name, { button, bar, count });
      list.append(item);
    });
    const group = make("section", { class: "group", "aria-label": title }, make("h3", {}, title), list);
    if (sorted.length > FEW) {
      const more = make("button", { type: "button", class: "link" }, `${number(sorted.length - FEW)} more`);
      more.addEventListener("click", () => {
        const first = list.children[FEW];
        for (const item of list.children) item.hidden = false;
        more.remove();
        first.querySelector("button").focus();
      });
      group.append(more);
    }
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
    const start = state.page * PAGE;
    const shown = state.found.slice(start, start + PAGE);
    byId("rows").replaceChildren(...shown.flatMap(drawRow));
    byId("range").textContent = shown.length ? `${number(start + 1)} to ${number(start + shown.length)} of ${number(state.found.length)}` : "";
    byId("previous").disabled = !state.page;
    byId("next").disabled = start + PAGE >= state.found.length;
    document.querySelector(".pager").hidden = state.found.length <= PAGE;
    byId("status").textContent = state.found.length === rows.length
      ? `${number(rows.length)} model${rows.length === 1 ? "" : "s"}`
      : `${number(state.found.length)} of ${number(rows.length)} models`;
  };

  const update = (page = 0) => {
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
    const order = ORDERS[state.column], sign = state.descending ? -1 : 1;
    if (state.column !== "Verdict" || state.descending) state.found.sort((a, b) => sign * order(a, b) || a.place - b.place);
    for (const [column, head] of heads) {
      if (column === state.column) head.setAttribute("aria-sort", state.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    byId("clear").disabled = !state.words.length && state.chosen.every((chosen) => !chosen.size);
    countFilters(counts);
    state.page = page;
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

  const drawFindings = (findings) => {
    const list = make("ul", { class: "findings" });
    const extend = () => {
      const from = list.children.length;
      list.append(...findings.slice(from, from + MANY).map(drawFinding));
      return findings.length - list.children.length;
    };
    const left = extend();
    if (!left) return [list];
    const more = make("button", { type: "button", class: "link" }, `${number(left)} more`);
    more.addEventListener("click", () => {
      const rest = extend();
      more.textContent = `${number(rest)} more`;
      if (!rest) more.remove();
    });
    return [list, more];
  };

  const drawDetail = (row, detail) => {
    const facts = make("dl");
    const fact = (name, value) => value && facts.append(make("div", {}, make("dt", {}, name), make("dd", {}, make("code", {}, value))));
    fact("Key", detail.key);
    fact("Input shapes", detail.input_shapes && indent(detail.input_shapes).replace(/\s+/g, " "));
    fact("Output", detail.output && show(detail.output));
    const link = make("a", { href: `#model=${encodeURIComponent(show(row.model))}` }, "link to this model");
    const parts = [row.message ? make("p", {}, show(row.message)) : null, facts];
    if (detail.findings.length) parts.push(make("h3", {}, "Findings"), ...drawFindings(detail.findings));
    if (detail.stderr.length) parts.push(make("h3", {}, "Last lines of stderr"), make("pre", { tabindex: "0" }, detail.stderr.map(show).join("\n")));
    if (detail.result) {
      const text = make("pre", { tabindex: "0", "aria-label": "Result" });
      const result = make("details", {}, make("summary", {}, `Result, ${number(detail.result.length)} characters of JSON`), text);
      result.addEventListener("toggle", () => { if (!text.textContent) text.textContent = indent(detail.result); });
      parts.push(result);
    }
    parts.push(make("p", {}, link));
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
    try {
      cell.append(...drawDetail(row, await load(row)));
    } catch {
      cell.append("The data of this model cannot be read: the file is not complete.");
    }
  };

  const goToHash = async () => {
    const match = /^#model=(.*)$/.exec(location.hash);
    if (!match) return;
    let name;
    try {
      name = decodeURIComponent(match[1]);
    } catch {
      return;
    }
    const row = rows.find((one) => show(one.model) === name);
    if (!row) return;
    clear();
    update(Math.floor(state.found.indexOf(row) / PAGE));
    await toggle(row, true);
    row.button.focus({ preventScroll: true });
    row.element.scrollIntoView();
  };

  // Controls
  const clear = () => {
    state.chosen.forEach((chosen) => chosen.clear());
    state.words = [];
    byId("search").value = "";
  };
  byId("search").addEventListener("input", (event) => {
    state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    update();
  });
  byId("clear").addEventListener("click", () => {
    clear();
    update();
    byId("search").focus();
  });
  const turn = (by) => {
    state.page += by;
    drawPage();
    byId("models-section").scrollIntoView();
  };
  byId("previous").addEventListener("click", () => turn(-1));
  byId("next").addEventListener("click", () => turn(1));
  addEventListener("hashchange", goToHash);

  byId("filters-section").hidden = byId("models-section").hidden = false;
  byId("filters-box").open = !matchMedia("(max-width: 48rem)").matches; // models first where there is little room
  update();
  performance.mark("table");
  await goToHash();
  document.documentElement.dataset.ready = "yes";
})();
