// Shows one answer while it comes: a span for each token, shaded where it was drafted, and what the model said of it.
// All of it is text: nothing that a model writes becomes HTML.

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

// The tokens of a chunk's choice, of chat and of completions alike.
function tokensOf(choice) {
  const drafted = choice.accepted_drafts ?? [], ids = choice.token_ids ?? [];
  const lists = choice.logprobs;
  let tokens = [];
  if (lists?.content) {
    tokens = lists.content.map((entry) => ({
      text: entry.token, logprob: entry.logprob,
      top: entry.top_logprobs.map((other) => [other.token, other.logprob]),
    }));
  } else if (lists?.tokens) {
    tokens = lists.tokens.map((text, i) => ({
      text, logprob: lists.token_logprobs[i], top: Object.entries(lists.top_logprobs[i] ?? {}),
    }));
  } else {
    tokens = ids.map(() => ({text: null, logprob: null, top: []}));
  }
  tokens.forEach((token, i) => {
    token.id = ids[i];
    token.drafted = drafted[i] ?? false;
    token.top.sort((a, b) => b[1] - a[1]);
  });
  return tokens;
}

export class AnswerView {
  constructor(said) {
    this.said = said;
    this.text = "";
    this.numTokens = 0;
    this.numDrafted = 0;
    this.tokens = new Map();  // by span
    this.waiting = [];        // tokens whose text has not come: it may become a stop string
  }

  add(choice) {
    const fresh = choice.delta?.content ?? choice.text ?? "";
    const tokens = tokensOf(choice);
    this.numTokens += tokens.length;
    this.numDrafted += tokens.filter((token) => token.drafted).length;
    this.waiting.push(...tokens);
    this.text += fresh;
    this.place(fresh);
  }

  // Gives each waiting token its part of the text. Where tokens and text do not match (a character made of several
  // tokens, a text without its tokens), what is left is one span of all of them.
  place(text) {
    while (text !== "" && this.waiting.length > 0) {
      const own = this.waiting[0].text;
      const part = own && [own, own.trimStart()].find((form) => form !== "" && text.startsWith(form));
      if (!part) break;
      this.put(part, [this.waiting.shift()]);
      text = text.slice(part.length);
    }
    if (text !== "") this.put(text, this.waiting.splice(0));
  }

  put(text, tokens) {
    const span = make("span", tokens.some((token) => token.drafted) ? "token drafted" : "token", text);
    this.said.append(span);
    this.tokens.set(span, tokens);
  }
}

const percent = (logprob) => (100 * Math.exp(logprob)).toPrecision(3) + " %";

// What `panel` says of a span's tokens.
export function describe(panel, tokens) {
  panel.replaceChildren();
  for (const token of tokens) {
    const line = make("div");
    line.append(make("code", "", token.text === null ? "?" : JSON.stringify(token.text)));
    const facts = [token.drafted ? "drafted and accepted" : "not drafted"];
    if (token.logprob !== null) facts.unshift(percent(token.logprob), "log probability " + token.logprob.toFixed(4));
    if (token.id !== undefined) facts.push("id " + token.id);
    line.append(" " + facts.join(", "));
    panel.append(line);
    if (token.top.length === 0) continue;
    const table = make("table");
    for (const [text, logprob] of token.top) {
      const row = table.insertRow();
      row.insertCell().append(make("code", "", JSON.stringify(text)));
      row.insertCell().textContent = percent(logprob);
      row.insertCell().textContent = logprob.toFixed(4);
    }
    panel.append(table);
  }
  if (tokens.length === 0) panel.textContent = "No token came with this text.";
}
