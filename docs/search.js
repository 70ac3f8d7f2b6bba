// SPDX-License-Identifier: Apache-2.0
/*
 * Search in the documents, in the browser: tools/build-docs makes an index of all sections, which is asked for when somebody
 * first goes to the field. A section counts by where the words stand: in its heading, its page's title, or its text; and all the
 * more by how many of them it has. `/` goes to the field, the arrows through what was found, Escape back.
 */
const SHOWN_MAX = 12;
const WEIGHT = { heading: 8, title: 6, about: 4, text: 1 };
/** Words of people who do not know ours yet. */
const SAME = { hide: "secret", hidden: "secret", password: "secret", token: "secret", credential: "secret", ram: "memory", pypi: "pip", internet: "network", machine: "host", server: "host", backup: "backup back", kill: "end", timeout: "timeout lifetime", docker: "container", install: "package" };
const LITTLE = new Set("a an and are be by can do does for from how i in is it my of on or the to what with you".split(" "));

const input = document.getElementById("search");
const found = document.getElementById("found");
const told = document.getElementById("told");
let index;

async function load() {
  index ??= fetch("/docs/search.json").then((reply) => reply.json());
  return index;
}

/** Words alike: of several and of one, and those that begin so. */
function stem(word) {
  return word.length > 3 ? word.replace(/(ies|s)$/, (end) => (end === "s" ? "" : "y")) : word;
}

function wordsOf(text) {
  return (text.toLowerCase().match(/[a-z0-9_]+/g) ?? []).map(stem);
}

/** Each word that was typed, with those that mean the same. */
function askedFor(text) {
  const typed = wordsOf(text).filter((word) => !LITTLE.has(word));
  return typed.map((word) => [word, ...(SAME[word]?.split(" ") ?? [])]);
}

function has(words, wanted) {
  return wanted.some((w) => words.some((word) => (w.length < 3 ? word === w : word.startsWith(w))));
}

function score(section, page, asked) {
  let sum = 0;
  let hits = 0;
  for (const wanted of asked) {
    const here = (has(section.words.heading, wanted) && WEIGHT.heading) + (has(page.words.title, wanted) && WEIGHT.title) + (has(page.words.about, wanted) && WEIGHT.about) + (has(section.words.text, wanted) && WEIGHT.text);
    sum += here;
    hits += here > 0;
  }
  return (sum * hits * hits) / page.far;
}

/** The index with its words cut, once. */
function prepare(raw) {
  if (raw.isPrepared) return raw;
  for (const page of raw.pages) page.words = { title: wordsOf(page.title), about: wordsOf(page.about) };
  for (const section of raw.sections) section.words = { heading: wordsOf(section.heading), text: section.text.split(" ") };
  raw.isPrepared = true;
  return raw;
}

function best(raw, text) {
  const { pages, sections } = prepare(raw);
  const asked = askedFor(text);
  if (!asked.length) return [];
  const rows = sections.map((section) => ({ section, page: pages[section.page], score: score(section, pages[section.page], asked) }));
  return rows.filter((row) => row.score > 0).sort((a, b) => b.score - a.score).slice(0, SHOWN_MAX);
}

function row({ section, page }) {
  const link = document.createElement("a");
  link.href = page.url + (section.slug ? `#${section.slug}` : "");
  const heading = document.createElement("strong");
  heading.textContent = section.heading;
  const where = document.createElement("span");
  where.textContent = section.heading === page.title ? page.about : page.title;
  link.append(heading, where);
  const item = document.createElement("li");
  item.append(link);
  return item;
}

async function show() {
  const text = input.value.trim();
  const rows = text ? best(await load(), text) : [];
  if (text !== input.value.trim()) return; // more was typed meanwhile
  found.replaceChildren(...rows.map(row));
  found.hidden = !rows.length;
  told.textContent = !text ? "" : rows.length ? `${rows.length} found; the arrows lead to them` : "Nothing found: try another word, or look through the list.";
  told.className = rows.length ? "unseen" : ""; // the list itself is to see
  told.hidden = !text;
}

function close() {
  found.hidden = true;
  told.hidden = true;
}

function move(step) {
  const links = [...found.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement);
  const next = at + step;
  if (next < 0) input.focus();
  else links[Math.min(next, links.length - 1)]?.focus();
}

function isTyping(node) {
  return /^(INPUT|TEXTAREA|SELECT)$/.test(node.tagName);
}

document.getElementById("finder").hidden = false; // without this script it could do nothing
input.addEventListener("focus", () => void load());
input.addEventListener("input", () => void show());
document.addEventListener("keydown", (event) => {
  const isHere = event.target === input || found.contains(event.target);
  if (event.key === "/" && !isTyping(event.target)) input.focus();
  else if (isHere && event.key === "ArrowDown") move(1);
  else if (isHere && event.key === "ArrowUp") move(-1);
  else if (isHere && event.key === "Escape") {
    input.focus();
    close();
  } else if (event.target === input && event.key === "Enter") found.querySelector("a")?.click();
  else return;
  event.preventDefault();
});
document.addEventListener("click", (event) => {
  if (!document.getElementById("finder").contains(event.target)) close();
});
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
  input.value = asked;
  input.focus();
  void show();
}
