// The list while somebody types, and while records are read. Without this script the form does the same.
// @ts-check

const form = /** @type {HTMLFormElement} */ (document.getElementById("filters"));
const list = /** @type {HTMLElement} */ (document.getElementById("list"));

/** Milliseconds from the last letter to the question. */
const PAUSE = 150;
/** Milliseconds until the list is asked for again while records are read. */
const AGAIN = 500;

/** @type {AbortController | undefined} */
let asking;
/** @type {number | undefined} */
let timer;

/** The filters as an address has them. @returns {URLSearchParams} */
function wanted() {
  const pairs = [...new FormData(form)].filter(([, value]) => value !== "");
  return new URLSearchParams(pairs.map(([name, value]) => [name, String(value)]));
}

/** The chosen runs stay chosen when the list comes anew. @returns {Set<string>} */
function picked() {
  const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (list.querySelectorAll("input[name=run]:checked"));
  return new Set([...boxes].map((box) => box.value));
}

/** Shows the list for these filters; `again` only waits for the look that goes on.
 *  @param {URLSearchParams} query @param {boolean} again */
async function show(query, again = false) {
  asking?.abort();
  asking = new AbortController();
  const address = new URLSearchParams(query);
  address.set("part", "list");
  if (again) address.set("again", "yes");
  try {
    const answer = await fetch(`?${address}`, { signal: asking.signal });
    if (!answer.ok) return;
    const chosen = picked();
    // The server has escaped what comes from records.
    list.innerHTML = await answer.text();
    const boxes = /** @type {NodeListOf<HTMLInputElement>} */ (list.querySelectorAll("input[name=run]"));
    for (const box of boxes) box.checked = chosen.has(box.value);
    counted();
    watch();
  } catch {
    // Another question has taken its place, or the server has ended: what is shown stays.
  }
}

/** Two runs can be compared, no more and no fewer. */
function counted() {
  const button = /** @type {HTMLButtonElement | null} */ (list.querySelector(".foot button"));
  const count = picked().size;
  if (!button) return;
  button.disabled = count !== 2;
  button.textContent = count === 2 ? "Compare these two" : "Choose two to compare";
}

/** Asks again while the index grows. */
function watch() {
  clearTimeout(timer);
  const count = /** @type {HTMLElement | null} */ (list.querySelector(".count"));
  if (count?.dataset.busy === "yes") timer = setTimeout(() => show(new URLSearchParams(location.search), true), AGAIN);
}

form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => {
    const query = wanted();
    history.replaceState(null, "", query.size ? `?${query}` : "./");
    show(query);
  }, PAUSE);
});
list.addEventListener("change", counted);
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
counted();
watch();
