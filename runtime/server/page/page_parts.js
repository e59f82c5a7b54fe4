// The panel of parts: what serves, a form that swaps a part, and the last events. The admin key stays in its field: it is
// in no url, is not stored, and is gone with the page.
import {make} from "./page_answer.js";
import {Broken, getText, postJson} from "./page_stream.js";

const kEveryMs = 2000;
const kMaxEvents = 20;
const $ = (id) => document.getElementById(id);

const ms = (seconds) => `${(1000 * seconds).toFixed(1)} ms`;
const counted = (count, what) => `${count} ${what}${count === 1 ? "" : "s"}`;

export function showParts(parts) {
  const rows = parts.map((part) => {
    const row = make("tr");
    for (const text of [part.role, part.name, part.version, part.file]) row.append(make("td", "", text));
    const hash = make("td", "hash", part.hash.slice(0, 12));
    hash.title = part.hash;
    row.append(hash);
    return row;
  });
  $("parts").replaceChildren(...rows);
}

// The figures of a swap, in words.
function figuresOf(event) {
  const facts = [];
  if (event.generation !== undefined) facts.push(`generation ${event.generation}`);
  if (event.duration_s !== undefined) facts.push(`took ${ms(event.duration_s)}`);
  if (event.duration_ms !== undefined) facts.push(`took ${event.duration_ms.toFixed(1)} ms`);
  if (event.largest_gap_s !== undefined) facts.push(`largest gap ${ms(event.largest_gap_s)}`);
  if (event.recomputed_sequences) facts.push(`${counted(event.recomputed_sequences, "sequence")} computed anew`);
  if (event.verified_steps) facts.push(`${counted(event.verified_steps, "step")} verified`);
  return facts.join(", ");
}

// Of an event of any kind: what it is about, who did it, its figures, why it failed.
function detailsOf(event) {
  const what = [event.part, event.plugin].filter(Boolean).join(" ");
  const options = event.options && Object.keys(event.options).length > 0 ? JSON.stringify(event.options) : "";
  const by = event.by ? `by ${event.by}` : "";
  const reason = event.error ?? event.reason ?? "";
  return [[what, options].filter(Boolean).join(" "), by, figuresOf(event), reason].filter(Boolean).join("; ");
}

// `lines`: JSON, the oldest event first.
function showEvents(lines) {
  const events = lines.split("\n").filter(Boolean).slice(-kMaxEvents).reverse().map((line) => JSON.parse(line));
  const rows = events.map((event) => {
    const row = make("tr");
    row.append(make("td", "", new Date(1000 * event.time).toLocaleTimeString()), make("td", "", event.event),
               make("td", "", detailsOf(event)));
    row.title = JSON.stringify(event);
    return row;
  });
  $("events").replaceChildren(...rows);
  $("events_words").textContent = events.length === 0 ? "nothing has changed yet" : "";
}

// What the form says, as POST /admin/swap takes it. Throws an Error when it says nothing that can be sent.
function bodyOf(model) {
  const body = {part: $("swap_part").value, model};
  const plugin = $("swap_plugin").value.trim(), options = $("swap_options").value.trim();
  if (plugin) body.plugin = plugin;
  if (options) {
    try {
      body.options = JSON.parse(options);
    } catch (error) {
      throw new Error(`The options are not JSON, as in {"block_size": 16}: ${error.message}`);
    }
  }
  if ($("verify_steps").value !== "") body.verify_steps = Number($("verify_steps").value);
  return body;
}

function showOutcome(state, words) {
  $("outcome").dataset.state = state;
  $("outcome").textContent = words;
}

export class PartsView {
  // `model()` names the model that is shown.
  constructor(model) {
    this.model = model;
    this.refused = false;  // the events: asked again with another key
    $("swap_form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.swap();
    });
    $("admin_key").addEventListener("change", () => this.askAgain());
    this.loop();
  }

  async loop() {
    while (true) {
      if (!document.hidden && !this.refused) await this.refresh();
      await new Promise((resolve) => setTimeout(resolve, kEveryMs));
    }
  }

  askAgain() {
    this.refused = false;
    return this.refresh();
  }

  async refresh() {
    try {
      showEvents(await getText("admin/events", $("admin_key").value.trim()));
    } catch (error) {
      if (error instanceof Broken) return;  // the status tells that
      this.refused = error.status === 401 || error.status === 403;
      $("events").replaceChildren();
      $("events_words").textContent = error.message;
    }
  }

  async swap() {
    $("swap").disabled = true;
    showOutcome("", "swapping");
    try {
      const event = await postJson("admin/swap", bodyOf(this.model()), $("admin_key").value.trim());
      showOutcome("ok", `Swapped: ${[event.part, event.plugin].filter(Boolean).join(" ")}; ${figuresOf(event)}`);
    } catch (error) {
      showOutcome("bad", error instanceof Broken ? "The server cannot be reached." : error.message);
    }
    $("swap").disabled = false;
    await this.askAgain();
  }
}
