// The right-hand column: /status once a second while the page is seen.
import {make} from "./page_answer.js";
import {showParts} from "./page_parts.js";
import {getJson} from "./page_stream.js";

const kEveryMs = 1000;
const $ = (id) => document.getElementById(id);

function bar(element, words, parts, total) {
  element.replaceChildren();
  words.replaceChildren();
  for (const [className, count, name] of parts) {
    const part = make("span", className);
    part.style.width = total > 0 ? `${100 * count / total}%` : "0";
    element.append(part);
    words.append(make("span", "key " + className), `${count} ${name}`);
  }
  element.setAttribute("aria-label", parts.map(([, count, name]) => `${count} ${name}`).join(", "));
}

function showAcceptance(list) {
  const box = $("acceptance");
  box.replaceChildren();
  for (const {proposer, by_position: positions} of list) {
    box.append(make("p", "quiet", proposer));
    positions.forEach(({drafted, accepted}, i) => {
      if (drafted === 0) return;
      const row = make("div", "position"), track = make("div", "bar"), part = make("span", "one");
      part.style.width = `${100 * accepted / drafted}%`;
      track.append(part);
      row.append(make("span", "", String(i + 1)), track, make("span", "", `${(100 * accepted / drafted).toFixed(1)} %`));
      row.title = `${accepted} of ${drafted} drafts accepted at position ${i + 1}`;
      box.append(row);
    });
  }
  if (list.length === 0) box.append(make("p", "quiet", "no proposer in this pipeline"));
}

export class StatusView {
  // `api.key()` gives the key; `api.onKeyWanted()` is called when the server refuses it, `api.onStatus(status)` with
  // each status, `api.model()` names the model that is shown.
  constructor(api) {
    this.api = api;
    this.before = null;
    this.loop();
  }

  async loop() {
    while (true) {
      if (!document.hidden) await this.refresh();
      await new Promise((resolve) => setTimeout(resolve, kEveryMs));
    }
  }

  async refresh() {
    try {
      const status = await getJson("status", this.api.key());
      this.api.onStatus(status);
      const model = status.models.find((one) => one.name === this.api.model()) ?? status.models[0];
      this.show(status, model);
    } catch (error) {
      this.before = null;
      if (error.status === 401) {
        this.health("bad", "an API key is needed");
        this.api.onKeyWanted();
      } else {
        this.health("bad", error.status ? error.message : "the server does not answer");
      }
    }
  }

  health(state, words) {
    $("health").dataset.state = state;
    if ($("health").textContent !== words) $("health").textContent = words;  // a screen reader hears of changes alone
  }

  show(status, model) {
    const ok = model.health === "ok" && !status.draining;
    this.health(ok ? "ok" : "bad", status.draining ? "draining: accepts no more requests" : ok ? "ready" : model.health);
    const now = performance.now();
    if (this.before?.name === model.name) {
      const seconds = (now - this.before.at) / 1000;
      $("tokens_per_s").textContent = ((model.generated_tokens - this.before.tokens) / seconds).toFixed(0);
    }
    this.before = {name: model.name, at: now, tokens: model.generated_tokens};
    $("sequences").textContent = `${model.running}, ${model.waiting}`;
    $("cached").textContent =
        model.prompt_tokens > 0 ? `${(100 * model.cached_prompt_tokens / model.prompt_tokens).toFixed(0)} %` : "–";
    $("preemptions").textContent = model.preemptions;
    const {held, cached, free, total} = model.blocks;
    bar($("kv"), $("kv_words"), [["one", held, "held"], ["two", cached, "cached"], ["rest", free, `free of ${total} blocks`]], total);
    const last = model.last_step;
    bar($("batch"), $("batch_words"),
        [["three", last.prompt_rows, "prompt"], ["one", last.decode_rows, "decode"], ["two", last.draft_rows, "draft rows"]],
        last.prompt_rows + last.decode_rows + last.draft_rows);
    $("batch_words").append(`; ${last.sequences} sequence${last.sequences === 1 ? "" : "s"}`);
    showAcceptance(model.speculation);
    showParts(model.parts);
    $("server").textContent = `Mortise ${status.version}, ${model.system_fingerprint}`;
  }
}
