"use strict";
// The browser of candidates: filters a list and writes sources as text. Nothing of a candidate becomes markup.
(() => {
  const box = document.getElementById("browser");
  if (!box) return;
  const { entries, kinds, sentences, tasks } = JSON.parse(document.getElementById("shelf").textContent);
  const form = document.getElementById("filters");
  const list = document.getElementById("entries");
  const more = document.getElementById("more");
  const count = document.getElementById("count");
  const PAGE = 25;
  let found = [];
  let shown = 0;

  const make = (tag, text, name) => {
    const element = document.createElement(tag);
    if (text !== undefined) element.textContent = text;
    if (name) element.className = name;
    return element;
  };
  const many = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  const sentence = (verdict) => (verdict ? sentences[verdict.outcome] : "not audited");
  const told = (verdict) => sentence(verdict) + (verdict?.message ? `: ${verdict.message}` : "");

  const outcomes = [...new Set(entries.flatMap((entry) => entry.audit?.outcome ?? []))].sort();
  for (const outcome of outcomes) {
    const option = make("option", sentences[outcome]);
    option.value = outcome;
    form.elements.outcome.append(option);
  }
  const names = [...new Set(entries.flatMap((entry) => entry.cells))];
  for (const cell of names.sort((a, b) => a.length - b.length || a.localeCompare(b))) {
    form.elements.cell.append(make("option", cell));
  }
  for (const entry of entries) {
    const said = entry.training.map(told).join("\n");
    entry.haystack = [entry.hash, entry.task, entry.family, told(entry.audit), said, entry.source].join("\n").toLowerCase();
  }

  const wanted = (entry) => {
    const { text, verdict, outcome, cell, level } = form.elements;
    return (
      (!verdict.value || (verdict.value === "differs" ? entry.differs : entry.audit?.correct === (verdict.value === "correct"))) &&
      (!outcome.value || entry.audit?.outcome === outcome.value) &&
      (!cell.value || entry.cells.includes(cell.value)) &&
      (!level.value || entry.level === Number(level.value)) &&
      text.value.toLowerCase().split(/\s+/).every((word) => entry.haystack.includes(word))
    );
  };

  const code = (source, runs) => {
    const holder = make("code");
    const letters = Array.from(source);
    let start = 0;
    for (let index = 0; index < runs.length; index += 2) {
      // lengths count characters as Python does, so the text is walked by characters too
      const text = letters.slice(start, start + runs[index]).join("");
      const kind = runs[index + 1];
      holder.append(kind ? make("span", text, kinds[kind]) : text);
      start += runs[index];
    }
    const frame = make("pre");
    frame.tabIndex = 0;
    frame.append(holder);
    return frame;
  };

  const body = (entry) => {
    const judges = make("dl", undefined, "judges");
    judges.append(make("dt", "Audit"), make("dd", told(entry.audit)));
    for (const verdict of entry.training) {
      judges.append(make("dt", `In training, ${many(verdict.samples, "sample")} of ${verdict.cells.join(", ")}`), make("dd", told(verdict)));
    }
    if (entry.rewards.length) judges.append(make("dt", "Reward"), make("dd", entry.rewards.join(", ")));
    if (entry.speedup !== null) judges.append(make("dt", box.dataset.speedup), make("dd", String(entry.speedup)));
    judges.append(make("dt", "SHA-256"), make("dd", entry.hash));
    const link = make("a", "this candidate");
    link.href = `#${place(entry)}`;
    const linked = make("dd");
    linked.append(link);
    judges.append(make("dt", "Link"), linked);
    const commands = `tritonrl show RESULTS ${entry.cells[0]} --source ${entry.hash.slice(0, 12)} > candidate.py\ntritonrl verify candidate.py --task ${entry.task}`;
    const again = make("dd");
    again.append(code(commands, [commands.length, 0]));
    judges.append(make("dt", "Verify it again"), again);
    const parts = [judges, make("h4", "Candidate"), entry.source ? code(entry.source, entry.runs) : make("p", "The completion held no code.")];
    if (entry.cut) parts.push(make("p", `${many(entry.cut, "more character")}, not shown.`));
    const task = tasks[entry.task];
    if (!task) return parts;
    return [...parts, make("h4", "Task"), code(task.source, task.runs), ...(task.teacher ? [make("h4", "Teacher"), code(task.teacher, task.teacherRuns)] : [])];
  };

  const place = (entry) => `candidate-${entry.hash.slice(0, 16)}-${entry.task}`;

  const item = (entry) => {
    const line = make("summary");
    line.append(make("span", entry.audit?.correct ? "Correct" : sentence(entry.audit).replace(/^./, (c) => c.toUpperCase()), "verdict"));
    if (entry.differs) line.append(" · verifiers disagree");
    const drawn = [];
    if (entry.trained) drawn.push(`${many(entry.trained, "sample")} in training${entry.selected ? `, ${entry.selected} kept` : ""}`);
    if (entry.heldOut) drawn.push(`${many(entry.heldOut, "held-out sample")}`);
    line.append(make("small", `${entry.task} · ${entry.hash.slice(0, 12)} · ${drawn.join(" · ")}`));
    const details = make("details");
    details.append(line);
    details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(...body(entry)); }, { once: true });
    const row = make("li");
    row.id = place(entry);
    row.append(details);
    return row;
  };

  const extend = () => {
    list.append(...found.slice(shown, shown + PAGE).map(item));
    shown = Math.min(shown + PAGE, found.length);
    more.hidden = shown === found.length;
  };
  const filter = () => {
    found = entries.filter(wanted);
    shown = 0;
    list.replaceChildren();
    count.textContent = found.length ? `${many(found.length, "source")} of ${entries.length.toLocaleString("en")}` : "No source matches. Clear a filter to see more.";
    extend();
  };

  // a link to a candidate shows it alone, opened
  const follow = () => {
    const entry = entries.find((one) => `#${place(one)}` === decodeURIComponent(location.hash));
    if (!entry) return;
    form.reset();
    form.elements.text.value = `${entry.hash} ${entry.task}`;
    filter();
    const row = document.getElementById(place(entry));
    row.firstChild.open = true;
    row.scrollIntoView();
  };

  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", extend);
  box.hidden = false;
  filter();
  window.addEventListener("hashchange", follow);
  follow();
})();
