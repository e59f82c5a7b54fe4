// Asks the server for a streamed answer and takes its events. A stream that breaks goes on by itself: the same body is
// sent again with the id of the last event that came (Last-Event-ID), and the tokens that came, which the server then
// verifies instead of making them anew. A stream that breaks before its first event is asked for again. The user sees
// one answer, whatever happened below it.

const kTries = 8;  // in a row without a single event, some 40 seconds

// What the server answered instead of a stream.
export class Refusal extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

// The network, or the server's process: not a word came back, or no more of them.
export class Broken extends Error {}

function broken(error) {
  if (error.name === "AbortError") throw error;
  throw new Broken(error.message);
}

export function headers(key) {
  return key ? {Authorization: "Bearer " + key} : {};
}

async function refusalOf(response) {
  const text = await response.text().catch(() => "");
  let message = text.slice(0, 300);
  try {
    message = JSON.parse(text).error.message;
  } catch {}  // a proxy's page, for one
  return new Refusal(response.status, `${message || response.statusText} (status ${response.status})`,
                     Number(response.headers.get("Retry-After")) || 0);
}

// These answer with what the server says, or throw a Refusal or the network's error.
async function ask(path, key, more) {
  const response = await fetch(path, {headers: headers(key), cache: "no-store", ...more}).catch(broken);
  if (!response.ok) throw await refusalOf(response);
  return response;
}

export async function getText(path, key) {
  return (await ask(path, key)).text();
}

export async function getJson(path, key) {
  return (await ask(path, key)).json();
}

export async function postJson(path, body, key) {
  const more = {method: "POST", headers: {"Content-Type": "application/json", ...headers(key)}, body: JSON.stringify(body)};
  return (await ask(path, key, more)).json();
}

// The events of a response: {id, data} each, as they come.
async function* eventsOf(response) {
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  while (true) {
    const {done, value} = await reader.read().catch(broken);
    if (done) return;
    text += decoder.decode(value, {stream: true});
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = {id: null, data: ""};
      for (const line of block.split("\n")) {
        if (line.startsWith("id: ")) event.id = line.slice(4);
        if (line.startsWith("data: ")) event.data += line.slice(6);
      }
      if (event.data) yield event;
    }
  }
}

function sleep(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); reject(signal.reason); }, {once: true});
  });
}

// JSON numbers are doubles and seeds are not: digits go into the text as they are, and come out of it so.
function bodyText(body, seed, tokenIds) {
  const fields = JSON.stringify(tokenIds.length > 0 ? {...body, resume_token_ids: tokenIds} : body);
  return seed ? `${fields.slice(0, -1)},"seed":${seed}}` : fields;
}

function chunkOf(data) {
  const chunk = JSON.parse(data);
  const seed = /"seed":(\d+)/.exec(data.slice(data.lastIndexOf('"seed":')));
  if (seed) chunk.seed = seed[1];
  return chunk;
}

// Calls `onChunk` with each chunk, once, in order; `seed` of a chunk is a text. `onNotice` hears in words that a stream
// has broken and goes on. Ends when the answer has; throws a Refusal, an Error, or the signal's reason.
export async function streamAnswer({path, body, seed, key, signal, onChunk, onNotice}) {
  let lastId = null, hasBegun = false, tries = 0, wait = 0;
  const tokenIds = [];
  while (true) {
    try {
      const extra = lastId ? {"Last-Event-ID": lastId} : {};
      const response = await fetch(path, {
        method: "POST", signal, body: bodyText(body, seed, tokenIds),
        headers: {"Content-Type": "application/json", ...headers(key), ...extra},
      }).catch(broken);
      if (!response.ok) throw await refusalOf(response);
      hasBegun = true;
      for await (const {id, data} of eventsOf(response)) {
        if (data === "[DONE]") return;
        const chunk = chunkOf(data);
        if (chunk.error) throw new Refusal(chunk.error.code === "unavailable" ? 503 : 500, chunk.error.message, 0);
        tries = 0;
        onNotice("");
        if (id) lastId = id;
        for (const choice of chunk.choices) tokenIds.push(...(choice.token_ids ?? []));
        onChunk(chunk);
      }
      throw new Broken("the connection ended before the answer did");
    } catch (error) {
      if (signal.aborted) throw error;
      // If no stream has begun, the user hears at once what is wrong. Afterwards only what passes is worth waiting for. A
      // browser drops events that it has received if the connection breaks before the page reads them, even the first.
      const passes = error instanceof Broken || error.status === 503 || error.status === 429;
      if (!hasBegun || !passes || ++tries > kTries) throw error;
      wait = Math.max(250 * 2 ** (tries - 1), (error.retryAfter ?? 0) * 1000);
      const what = lastId ? "continuing after the last token" : "asking again";
      onNotice(`The connection broke; ${what} (try ${tries} of ${kTries}).`);
      await sleep(Math.min(wait, 10000), signal);
    }
  }
}
