// A run as it goes on. The server tells everything there is to whoever comes, and then what changes.
// @ts-check

/** @typedef {{place: string, arm: string, class: string, stage: string, told_at: string, left_s: number, trials: number,
 *   done: number, ends_after_block: boolean, ended: string | null}} Whereabouts */
/** @typedef {{at: string, kind: string, text: string, log: string}} Said */

/** Milliseconds until it is asked again whether a run goes on. */
const AGAIN = 3000;
/** Lines that are shown. */
const LINES = 300;

/** @param {string} id @returns {HTMLElement} */
const by = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @type {Whereabouts | undefined} */
let at;

/** Whether the run goes on nowhere, though it has not ended. */
let gone = false;
/** What the server said when it was last asked to end the run, and whether it did so at once. */
const asked = { said: "", atOnce: false };

/** Why the run cannot be asked to end, or what comes of it that it was. */
function ending() {
  const barred = by("ending").dataset.barred ?? "";
  let why = barred || asked.said;
  if (at?.ended) why = "The run has ended.";
  else if (gone) why = "The run has stopped.";
  else if (!why && at?.ends_after_block) why = "The run ends after this block.";
  const none = Boolean(at?.ended || gone || barred || asked.atOnce);
  by("at-once").setAttribute("aria-disabled", String(none));
  by("after-block").setAttribute("aria-disabled", String(none || at?.ends_after_block === true));
  // What is set again would be read out again.
  if (by("why").textContent !== why) by("why").textContent = why;
}

/** @param {string} run @param {"after-block" | "at-once"} when */
async function end(run, when) {
  try {
    const answer = await fetch(`now/end?run=${encodeURIComponent(run)}&when=${when}`, { method: "POST" });
    asked.said = await answer.text();
    asked.atOnce ||= answer.ok && when === "at-once";
  } catch {
    asked.said = "tare serve does not answer.";
  }
  ending();
}

/** Makes the buttons work. Those that may not be pressed stay reachable, so that their reason is read out.
 * @param {string} run */
function offer(run) {
  const sure = /** @type {HTMLDialogElement} */ (by("sure"));
  /** @param {string} id @param {() => void} act */
  const on = (id, act) =>
    by(id).addEventListener("click", () => {
      if (by(id).getAttribute("aria-disabled") !== "true") act();
    });
  on("after-block", () => end(run, "after-block"));
  on("at-once", () => sure.showModal());
  on("sure-no", () => sure.close());
  on("sure-yes", () => {
    sure.close();
    // It may have ended meanwhile.
    if (by("at-once").getAttribute("aria-disabled") !== "true") end(run, "at-once");
  });
}

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
  gone = false;
  ending();
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
  on("stopped", () => {
    trouble("The run has stopped without an end: tare resume continues it.");
    gone = true;
    Object.assign(asked, { said: "", atOnce: false });
    ending();
  });
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
if (now instanceof HTMLElement && now.dataset.run) {
  offer(now.dataset.run);
  follow(now.dataset.run);
} else if (document.getElementById("waiting")) setTimeout(() => location.reload(), AGAIN);
