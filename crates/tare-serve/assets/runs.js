// The list while somebody types, and while records are read. Without this script the form does the same.
// @ts-check

const form = /** @type {HTMLFormElement} */ (document.getElementById("filters"));
const list = /** @type {HTMLElement} */ (document.getElementById("list"));
/** How many there are stands outside of what comes anew, so that screen readers tell only what changed in it. */
const count = /** @type {HTMLElement} */ (list.querySelector(".count"));
list.before(count);

/** Milliseconds from the last letter to the question. */
const PAUSE = 150;
/** Milliseconds until the list is asked for again while records are read. */
const AGAIN = 500;

/** Milliseconds for which a look at the folder is new enough for a search. */
const FRESH = 10000;

/** When the folder was looked through for this page. */
let looked = Date.now();
/** @type {AbortController | undefined} */
let asking;
/** @type {number | undefined} */
let timer;

/** The filters as an address has them. @returns {URLSearchParams} */
function wanted() {
  const pairs = [...new FormData(form)].filter(([, value]) => value !== "");
  return new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]));
}

/** Where the chosen runs are kept, in this tab. */
const KEPT = "tare-chosen";

/** The chosen runs stay chosen when the list comes anew, on other pages and in searches. @returns {Set<string>} */
function kept() {
  try {
    const names = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    return new Set(Array.isArray(names) ? names.map(String) : []);
  } catch {
    return new Set();
  }
}
let chosen = kept();
// What was chosen has been deleted.
if (new URLSearchParams(location.search).get("chosen") === "none") {
  chosen = new Set();
  try {
    sessionStorage.removeItem(KEPT);
  } catch {
    // Nothing was kept.
  }
  history.replaceState(null, "", "./");
}

/** The boxes of the runs that are listed. @returns {HTMLInputElement[]} */
const boxes = () => [...list.querySelectorAll("input[type=checkbox][name=run]")].map((box) => /** @type {any} */ (box));

/** Takes in what was ticked. */
function pick() {
  for (const box of boxes()) {
    if (box.checked) chosen.add(box.value);
    else chosen.delete(box.value);
  }
  keep();
}

function keep() {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify([...chosen]));
  } catch {
    // Without a store they are chosen on this page only.
  }
  counted();
}

/** Puts the list that the server made in the place of the one shown; the focus stays where it was.
 *  @param {string} html */
function put(html) {
  const made = document.createElement("template");
  // The server has escaped what comes from records.
  made.innerHTML = html;
  const counts = /** @type {HTMLElement} */ (made.content.querySelector(".count"));
  counts.remove();
  count.dataset.busy = counts.dataset.busy;
  count.setAttribute("aria-busy", counts.getAttribute("aria-busy") ?? "false");
  if (count.innerHTML !== counts.innerHTML) count.innerHTML = counts.innerHTML;
  const was = list.contains(document.activeElement) ? document.activeElement : null;
  const focused = was && alike(was);
  list.replaceChildren(made.content);
  tick();
  if (!focused) return;
  const all = /** @type {NodeListOf<HTMLElement>} */ (list.querySelectorAll("a, button, input"));
  [...all].find((one) => alike(one) === focused)?.focus();
}

/** What tells an element of the list from others: its name and value, or where it leads. @param {Element} element */
function alike(element) {
  const parts = ["name", "value", "href", "rel"].map((name) => element.getAttribute(name) ?? "");
  return [element.tagName, ...parts].join("\n");
}

function tick() {
  for (const box of boxes()) box.checked = chosen.has(box.value);
  counted();
}

/** Shows the list for these filters; `again` only waits for the look that goes on. A search soon after a look does, too.
 *  @param {URLSearchParams} query @param {boolean} again */
async function show(query, again = false) {
  asking?.abort();
  asking = new AbortController();
  const address = new URLSearchParams(query);
  address.set("part", "list");
  if (again || Date.now() - looked < FRESH) address.set("again", "yes");
  else looked = Date.now();
  try {
    const answer = await fetch(`?${address}`, { signal: asking.signal });
    if (!answer.ok) return;
    put(await answer.text());
    watch();
  } catch {
    // Another question has taken its place, or the server has ended: what is shown stays.
  }
}

/** Two runs or more can be compared, up to what the page says. Those that are not listed are sent along. */
function counted() {
  const pages = /** @type {HTMLFormElement | null} */ (document.getElementById("pick"));
  const button = /** @type {HTMLButtonElement | null} */ (list.querySelector("button.compare"));
  if (!pages || !button) return;
  for (const other of pages.querySelectorAll("input[type=hidden]")) other.remove();
  const listed = new Set(boxes().map((box) => box.value));
  const others = [...chosen].filter((name) => !listed.has(name));
  for (const name of others) {
    const other = document.createElement("input");
    [other.type, other.name, other.value] = ["hidden", "run", name];
    pages.append(other);
  }
  const most = Number(pages.dataset.most);
  button.disabled = chosen.size < 2 || chosen.size > most;
  const elsewhere = others.length ? ` (${others.length} not on this page)` : "";
  const words = chosen.size < 2 ? "Choose two or more to compare" : `Choose at most ${most} to compare`;
  for (const other of list.querySelectorAll("button.some")) {
    /** @type {HTMLButtonElement} */ (other).disabled = chosen.size === 0;
  }
  button.textContent = (button.disabled ? words : `Compare these ${chosen.size}`) + elsewhere;
  clear(button);
}

/** Beside the button, what unticks all. @param {HTMLButtonElement} button */
function clear(button) {
  const there = button.parentElement?.querySelector("button[name=clear]");
  if (chosen.size === 0) there?.remove();
  if (chosen.size === 0 || there) return;
  const none = document.createElement("button");
  [none.type, none.name, none.textContent] = ["button", "clear", "Choose none"];
  none.addEventListener("click", () => {
    chosen = new Set();
    tick();
    keep();
    boxes()[0]?.focus();
  });
  button.after(none);
}

/** Asks again while the index grows. */
function watch() {
  clearTimeout(timer);
  if (count.dataset.busy === "yes") timer = setTimeout(() => show(new URLSearchParams(location.search), true), AGAIN);
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const query = wanted();
    history.replaceState(null, "", query.size ? `?${query}` : "./");
    show(query);
  }, PAUSE);
});
list.addEventListener("change", pick);
document.addEventListener("keydown", (event) => {
  const search = /** @type {HTMLInputElement} */ (form.elements.namedItem("q"));
  const elsewhere = !(event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement);
  if (event.key === "/" && elsewhere && !event.ctrlKey && !event.metaKey) {
    event.preventDefault();
    search.focus();
  }
});
// The list follows the filters by itself, at each letter and on Enter.
/** @type {HTMLElement} */ (form.querySelector("button")).hidden = true;
form.addEventListener("submit", (event) => event.preventDefault());
tick();
watch();
