// A run as it goes on. The server tells everything there is to whoever comes, and then what changes.
// @ts-check

/** @typedef {{place: string, arm: string, class: string, stage: string, told_at: string, left_s: number, trials: number,
 *   done: number, ended: string | null}} Whereabouts */
/** @typedef {{at: string, kind: string, text: string, log: string}} Said */

/** Milliseconds until it is asked again whether a run goes on. */
const AGAIN = 3000;
/** Lines that are shown. */
const LINES = 300;

/** @param {string} id @returns {HTMLElement} */
const by = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @type {Whereabouts | undefined} */
let at;

/** A time in words. @param {number} seconds */
function inWords(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor((whole % 3600) / 60)];
  if (hours > 0) return `${hours} h ${minutes} min`;
  return minutes > 0 ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

function left() {
  if (!at || at.ended || !at.told_at) {
    by("left").textContent = "";
    return;
  }
  const since = (Date.now() - Date.parse(at.told_at)) / 1000;
  by("left").textContent = `about ${inWords(at.left_s - since)} left`;
}

/** @param {Whereabouts} state */
function whereabouts(state) {
  at = state;
  const headline = by("headline");
  headline.replaceChildren();
  if (state.ended) {
    headline.textContent = `The run has ended: ${state.ended}.`;
  } else if (state.arm) {
    const key = document.createElement("span");
    key.className = `key ${state.class}`;
    key.setAttribute("aria-hidden", "true");
    headline.append(key, `${state.arm}, ${state.place}: ${state.stage}`);
  } else {
    headline.textContent = "The run is about to begin.";
  }
  const progress = /** @type {HTMLProgressElement} */ (by("progress"));
  progress.max = Math.max(1, state.trials, state.done);
  progress.value = state.done;
  by("done").textContent = `${state.done} of ${state.trials} trials`;
  for (const stage of by("stages").children) {
    const here = !state.ended && stage instanceof HTMLElement && stage.dataset.stage === state.stage;
    stage.classList.toggle("here", here);
    if (here) stage.setAttribute("aria-current", "step");
    else stage.removeAttribute("aria-current");
  }
  document.title = state.ended ? "Ended · Tare" : `${state.done}/${state.trials} · Tare`;
  left();
}

/** @param {Said} said */
function say(said) {
  const line = document.createElement("li");
  line.className = said.kind;
  const time = document.createElement("time");
  time.dateTime = said.at;
  time.textContent = said.at.slice(11, 19);
  const text = document.createElement("span");
  text.textContent = said.text;
  line.append(time, text);
  if (said.log) {
    const log = document.createElement("pre");
    log.textContent = said.log;
    line.append(log);
  }
  const lines = by("said");
  lines.prepend(line);
  while (lines.children.length > LINES) lines.lastElementChild?.remove();
}

/** @param {string} text */
function trouble(text) {
  by("trouble").hidden = text === "";
  by("trouble").textContent = text;
}

/** @param {string} run */
function follow(run) {
  const source = new EventSource(`now/events?run=${encodeURIComponent(run)}`);
  /** @param {string} event @param {(data: any) => void} take */
  const on = (event, take) => source.addEventListener(event, (message) => take(JSON.parse(message.data)));
  on("begin", () => {
    by("said").replaceChildren();
    trouble("");
  });
  // Whatever was wrong, the run says where it is again.
  on("state", (state) => {
    trouble("");
    whereabouts(state);
  });
  // Drawings and tables are made by the server, which has escaped what comes from the record.
  on("ratios", ({ html }) => (by("ratios").innerHTML = html));
  on("seconds", ({ arm, html }) => {
    const figures = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#seconds figure"));
    for (const figure of figures) {
      if (figure.dataset.arm !== arm) continue;
      // Forms that take turns within milliseconds have no seconds.
      by("by-second").hidden = false;
      figure.hidden = false;
      /** @type {HTMLElement} */ (figure.querySelector("div")).innerHTML = html;
    }
  });
  on("said", say);
  on("stopped", () => trouble("The run has stopped without an end: tare resume continues it."));
  on("end", () => {
    source.close();
    if (at && !at.ended) whereabouts({ ...at, ended: "its record is complete" });
    by("report").textContent = "report";
    by("next").hidden = false;
  });
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) trouble("tare serve has ended, or the record is gone.");
    else trouble("The connection is lost; trying again.");
  });
  setInterval(left, 1000);
}

const now = document.getElementById("now");
if (now instanceof HTMLElement && now.dataset.run) follow(now.dataset.run);
else if (document.getElementById("waiting")) setTimeout(() => location.reload(), AGAIN);
