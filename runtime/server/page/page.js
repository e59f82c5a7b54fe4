// The playground: a conversation, its settings, and the key. The answers: page_stream.js, page_answer.js. The status:
// page_status.js. Parts, swaps and events: page_parts.js.
import {AnswerView, describe, make} from "./page_answer.js";
import {PartsView} from "./page_parts.js";
import {StatusView} from "./page_status.js";
import {Broken, streamAnswer} from "./page_stream.js";

const $ = (id) => document.getElementById(id);
const kKey = "mortise_api_key";

let messages = [];       // of the chat, without the system prompt
let views = new Map();   // the view of each answer, by the element of its text
let running = null;      // the AbortController of the answer that comes
let chosen = null;       // the token that is described

// --- the key

const key = () => sessionStorage.getItem(kKey) ?? "";

function askForKey() {
  if ($("key_dialog").open) return;
  if (key()) $("key_why").textContent = "The server refused this API key. Another one?";
  $("key_dialog").showModal();
}

$("key_dialog").addEventListener("close", () => {
  if ($("key").value) sessionStorage.setItem(kKey, $("key").value.trim());
  $("key").value = "";
});

// --- settings

const mode = () => document.querySelector("input[name=mode]:checked").value;

// A number that the user gave; what is not given is the server's to choose.
function number(id) {
  const value = $(id).value.trim();
  return value === "" ? undefined : Number(value);
}

function bodyFor(text) {
  const body = {
    model: $("model").value || undefined, stream: true, stream_options: {include_usage: true},
    temperature: number("temperature"), max_tokens: number("max_tokens"),
    return_token_ids: true, return_draft_info: true,
  };
  if ($("ignore_eos").checked) body.ignore_eos = true;
  if ($("proposer").value) body.speculation = {proposer: $("proposer").value};
  const alternatives = number("alternatives") ?? 0;
  if (mode() === "completion") {
    body.prompt = text;
    if ($("logprobs").checked) body.logprobs = alternatives;
    return body;
  }
  const system = $("system").value;
  body.messages = [...(system ? [{role: "system", content: system}] : []), ...messages];
  if ($("logprobs").checked) Object.assign(body, {logprobs: true, top_logprobs: alternatives});
  return body;
}

function setOptions(select, values) {
  const names = values.map(([value]) => value).join("\n");
  if (select.dataset.names === names) return;
  const before = select.value;
  select.replaceChildren(...values.map(([value, text]) => new Option(text, value)));
  if (values.some(([value]) => value === before)) select.value = before;
  select.dataset.names = names;
}

function showStatus(status) {
  setOptions($("model"), status.models.map((model) => [model.name, model.name]));
  const model = status.models.find((one) => one.name === $("model").value) ?? status.models[0];
  const proposers = model.parts.filter((part) => part.role === "proposer").map((part) => [part.name, part.name]);
  setOptions($("proposer"), [["", "all proposers"], ["none", "none"], ...proposers]);
}

// --- the conversation

function addTurn(who, text) {
  $("hint")?.remove();
  const turn = make("article", "turn " + who), said = make("div", "said", text);
  turn.append(make("div", "who", who === "user" ? "You" : "Model"), said);
  $("log").append(turn);
  return {turn, said};
}

function scrollDown() {
  const log = $("log");
  if (log.scrollHeight - log.scrollTop - log.clientHeight < 120) log.scrollTop = log.scrollHeight;
}

function showError(words) {
  $("error").textContent = words;
  $("error").hidden = words === "";
}

function wordsOf(error) {
  if (error instanceof Broken) return "The server cannot be reached: is it running, and is the network there?";
  if (error.status === 400 && /chat.template/.test(error.message)) {
    return error.message + ". Choose Completion in the settings to use this model without one.";
  }
  return error.message;
}

// What there is to tell of an answer that has ended.
function showFigures(turn, view, facts) {
  const line = make("p", "figures");
  const parts = [`${view.numTokens} token${view.numTokens === 1 ? "" : "s"}`];
  if (facts.rate) parts.push(`${facts.rate.toFixed(0)} tokens/s`);
  if (facts.first) parts.push(`first after ${facts.first.toFixed(0)} ms`);
  parts.push(`${view.numDrafted} drafted and accepted`);
  if (facts.usage) parts.push(`prompt ${facts.usage.prompt_tokens} tokens`);
  parts.push(facts.stopped ? "stopped" : facts.finish || "broken");
  if (facts.fingerprint) parts.push(facts.fingerprint);
  if (facts.resumed) parts.push(`resumed ${facts.resumed === 1 ? "once" : `${facts.resumed} times`}`);
  line.textContent = parts.join(" · ");
  if (facts.seed) {
    const again = make("button", "", "use");
    again.type = "button";
    again.title = "Take this seed for the next answer";
    again.addEventListener("click", () => { $("seed").value = facts.seed; });
    line.append(" · seed ", make("span", "seed", facts.seed), " ", again);
  }
  turn.append(line);
}

function setRunning(controller) {
  running = controller;
  $("send").disabled = running !== null;
  $("stop").disabled = running === null;
}

// Streams the answer to `text` into a turn of its own.
async function answer(text) {
  const isChat = mode() === "chat";
  if (isChat) messages.push({role: "user", content: text});
  const controller = new AbortController();
  setRunning(controller);
  const {turn, said} = addTurn("assistant");
  turn.classList.add("writing");
  const notice = make("p", "notice");
  turn.append(notice);
  const view = new AnswerView(said);
  views.set(said, view);
  const begin = performance.now();
  const seed = $("seed").value.trim();
  const facts = {first: 0, resumed: 0, tokensAtFirst: 0, seed};
  const onChunk = (chunk) => {
    facts.fingerprint = chunk.system_fingerprint;
    facts.usage = chunk.usage ?? facts.usage;
    facts.seed = chunk.seed ?? facts.seed;
    for (const choice of chunk.choices) {
      view.add(choice);
      facts.finish = choice.finish_reason ?? facts.finish;
    }
    const now = performance.now();
    if (!facts.first && view.numTokens > 0) Object.assign(facts, {first: now - begin, tokensAtFirst: view.numTokens});
    const seconds = (now - begin - facts.first) / 1000;
    if (view.numTokens > facts.tokensAtFirst && seconds > 0) {
      facts.rate = (view.numTokens - facts.tokensAtFirst) / seconds;
      $("rate").textContent = `${view.numTokens} tokens, ${facts.rate.toFixed(0)} tokens/s`;
    }
    scrollDown();
  };
  const onNotice = (words) => {
    if (words && !notice.textContent) ++facts.resumed;
    notice.textContent = words;
  };
  try {
    await streamAnswer({
      path: isChat ? "v1/chat/completions" : "v1/completions", body: bodyFor(text), seed, key: key(),
      signal: controller.signal, onChunk, onNotice,
    });
  } catch (error) {
    if (controller.signal.aborted) {
      facts.stopped = true;
    } else {
      showError(wordsOf(error));
      if (error.status === 401) askForKey();
    }
  }
  turn.classList.remove("writing");
  notice.remove();
  if (!turn.isConnected) return;  // cleared meanwhile
  setRunning(null);
  $("spoken").textContent = view.text;  // as a whole: a screen reader would stumble over tokens
  if (view.text === "" && !facts.finish && !facts.stopped) {  // it never began: as if it had not been asked
    turn.remove();
    if (isChat) messages.pop();
    return false;
  }
  if (isChat && view.text === "") messages.pop();  // templates want a question and an answer in turns
  else if (isChat) messages.push({role: "assistant", content: view.text});
  showFigures(turn, view, facts);
  scrollDown();
  return true;
}

async function send() {
  const text = $("text").value;
  if (running || text === "" || !$("seed").reportValidity()) return;
  showError("");
  $("text").value = "";
  const {turn} = addTurn("user", text);
  scrollDown();
  if (await answer(text) !== false) return;
  turn.remove();
  if ($("text").value === "") $("text").value = text;  // so that nothing must be typed again
}

$("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
$("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    send();
  }
});
$("stop").addEventListener("click", () => running?.abort());
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !$("key_dialog").open) running?.abort();
});
$("clear").addEventListener("click", () => {
  running?.abort();
  setRunning(null);
  messages = [];
  views = new Map();
  choose(null);
  $("log").replaceChildren();
  $("rate").textContent = "";
  showError("");
  $("text").focus();
});

// --- the token that is described: pointed at, tapped, or walked to with the arrow keys

function choose(span) {
  chosen?.classList.remove("chosen");
  chosen = span;
  $("token").hidden = !span;
  if (!span) return;
  span.classList.add("chosen");
  describe($("token"), views.get(span.parentElement)?.tokens.get(span) ?? []);
}

for (const kind of ["pointerover", "click"]) {
  $("log").addEventListener(kind, (event) => {
    const span = event.target.closest(".said > .token");
    if (span) choose(span);
  });
}
$("log").addEventListener("keydown", (event) => {
  const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
  if (!step) return;
  const spans = [...$("log").querySelectorAll(".said > .token")];
  const at = chosen ? spans.indexOf(chosen) + step : step > 0 ? 0 : spans.length - 1;
  if (!spans[at]) return;
  event.preventDefault();
  choose(spans[at]);
  spans[at].scrollIntoView({block: "nearest"});
});

new StatusView({key, model: () => $("model").value, onKeyWanted: askForKey, onStatus: showStatus});
new PartsView(() => $("model").value || undefined);
$("text").focus();
