// runtime/cli/repl/answer.cpp: runs a prompt or a message and shows the answer.
#include "cli/generation.hpp"
#include "cli/prompt.hpp"
#include "cli/repl/state.hpp"
#include "error.hpp"

namespace mortise {
namespace {

// Streams an answer. If an error interrupts it, the text so far gets a newline, so that the message has a line of its
// own.
Generation stream(ReplState& state, Request request) {
  OpenPipeline& pipeline = state.session.pipeline();
  std::optional<DraftMarks> marks;
  if (state.shows_drafts) {
    marks.emplace(pipeline.assembly.tokenizer(), request.sampling.skip_special_tokens, request.prompt);
  }
  Request again = request;
  bool printed = false;
  try {
    Generation generation = generate(pipeline.engine, std::move(request), [&](const Delta& delta) {
      const std::vector<MarkedText> pieces = marks ? marks->add(delta) : std::vector<MarkedText>();
      if (delta.text.empty()) return;
      marks ? state.console.completion(pieces) : state.console.completion(delta.text);
      printed = true;
    });
    state.console.end_completion();
    state.console.say(describe(generation));
    state.figures.add(generation);
    again.sampling.seed = generation.last.seed;
    state.last_request = std::move(again);
    return generation;
  } catch (...) {
    if (printed) state.console.end_completion();
    throw;
  }
}

void complete_text(ReplState& state, const std::string& text) {
  Request request;
  request.sampling = state.settings.params();
  request.speculation = state.speculation;
  request.prompt = text_prompt(state.session.pipeline(), text);
  const Generation generation = stream(state, std::move(request));
  state.dialogue.add({text, generation.text, to_string(generation.last.finish), generation.last.seed});
}

// A dialogue grows with each answer until it no longer fits. The error says how to continue.
void check_length(const Request& request, const ReplState& state) {
  const std::int32_t limit = state.session.pipeline().assembly.limits().max_model_len;
  if (request.prompt.size() < static_cast<std::size_t>(limit) || state.dialogue.messages.empty()) return;
  const bool is_cut = state.session.pipeline().assembly.model_info().is_cut;
  fail(
      "with this message the dialogue has {} tokens, but {} is {}; the message was not sent. /chat clear begins a new "
      "dialogue (/save keeps this one){}",
      request.prompt.size(), is_cut ? "max_model_len" : "the model's length", limit,
      is_cut ? ", or raise max_model_len" : "");
}

void reply(ReplState& state, const std::string& text) {
  nlohmann::json messages = state.dialogue.messages;
  messages.push_back({{"role", "user"}, {"content", text}});
  Request request;
  request.sampling = state.settings.params();
  request.speculation = state.speculation;
  request.prompt = chat_prompt(state.session.pipeline(), messages);
  check_length(request, state);
  const Generation generation = stream(state, std::move(request));
  if (generation.last.finish == FinishReason::kAborted && generation.text.empty()) {
    return state.console.say("stopped before the first word; the message is not part of the dialogue");
  }
  // A stopped answer is kept as far as it came, so that the model knows what its reader has read.
  messages.push_back({{"role", "assistant"}, {"content", generation.text}});
  state.dialogue.messages = std::move(messages);
}

}  // namespace

void answer(ReplState& state, const std::string& text) {
  state.dialogue.mode == Mode::kChat ? reply(state, text) : complete_text(state, text);
}

void check_chat(ReplState& state) {
  chat_prompt(state.session.pipeline(), {{{"role", "user"}, {"content", "Hello"}}});
}

}  // namespace mortise
