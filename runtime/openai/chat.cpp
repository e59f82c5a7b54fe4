// POST /v1/chat/completions: messages in, an assistant's message out.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/chat_request.hpp"
#include "openai/prediction.hpp"
#include "openai/service.hpp"
#include "openai/work.hpp"

namespace mortise {
namespace {

nlohmann::ordered_json entry_json(const TokenTexts& texts, std::int32_t id, float logprob) {
  const std::string text = texts.plain(id);
  return {{"token", texts(id)},
          {"logprob", finite_logprob(logprob)},
          {"bytes", std::vector<unsigned char>(text.begin(), text.end())}};
}

nlohmann::ordered_json logprobs_json(const TokenTexts& texts, const std::vector<TokenInfo>& tokens) {
  auto content = nlohmann::ordered_json::array();
  for (const TokenInfo& info : tokens) {
    nlohmann::ordered_json entry = entry_json(texts, info.id, info.logprob);
    entry["top_logprobs"] = nlohmann::ordered_json::array();
    for (const auto& [id, logprob] : info.top) entry["top_logprobs"].push_back(entry_json(texts, id, logprob));
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

struct ChatOptions {
  bool logprobs = false, return_token_ids = false, tokens_as_ids = false;
  bool return_draft_info = false;  // for streams only
};

// Writes a role, then texts, then an empty delta with the finish reason.
class ChatChunks : public ChunkWriter {
 public:
  ChatChunks(const Tokenizer& tokenizer, const ChatOptions& options)
      : options_(options), texts_(tokenizer, options.tokens_as_ids) {}

  void write(const ChoicePlace& place, const Delta& delta, bool begins, std::vector<ChunkChoice>& chunks) override {
    using Stage = ChunkChoice::Stage;
    if (begins) chunks.push_back({chunk(place, {{"role", "assistant"}, {"content", ""}}), Stage::kBegun});
    if (!delta.tokens.empty() || !delta.text.empty()) {
      nlohmann::ordered_json json = chunk(place, {{"content", delta.text}});
      if (options_.logprobs) json["logprobs"] = logprobs_json(texts_, delta.tokens);
      if (options_.return_token_ids) json["token_ids"] = ids_of(delta.tokens);
      if (options_.return_draft_info) json["accepted_drafts"] = accepted_drafts(delta.tokens);
      chunks.push_back({std::move(json), Stage::kTokens});
    }
    if (delta.finish == FinishReason::kNone) return;
    nlohmann::ordered_json json = chunk(place, nlohmann::ordered_json::object());
    json["finish_reason"] = to_string(delta.finish);
    json["seed"] = delta.seed;
    chunks.push_back({std::move(json), Stage::kEnded});
  }

 private:
  static nlohmann::ordered_json chunk(const ChoicePlace& place, nlohmann::ordered_json delta) {
    return {{"index", place.index}, {"delta", std::move(delta)}, {"logprobs", nullptr}, {"finish_reason", nullptr}};
  }
  const ChatOptions options_;
  const TokenTexts texts_;
};

}  // namespace

// A chat that is longer than this many times the model's length is not tokenized to its end. Somewhat longer chats are:
// the engine's error states their length, and /tokenize counts them.
constexpr std::size_t kMaxModelLengths = 16;

std::vector<std::int32_t> Service::chat_prompt(const ChatInput& input) const {
  if (!info_.chat_template) fail("this pipeline has no chat template");
  const std::size_t most = kMaxModelLengths * static_cast<std::size_t>(info_.max_model_len);
  return chat_tokens(info_.chat_template(input), tokenizer_, most);
}

Work Service::read_chat(const Body& body) const {
  Request request;
  request.prompt = chat_prompt(read_chat_input(body));
  SamplingParams defaults = info_.defaults;
  defaults.max_tokens = std::max(1, info_.max_model_len - static_cast<std::int32_t>(request.prompt.size()));
  request.sampling = read_sampling(body, std::move(defaults));
  if (const auto limit = body.integer("max_completion_tokens", 0, INT32_MAX)) {
    request.sampling.max_tokens = static_cast<std::int32_t>(*limit);
  }
  const std::int64_t top = body.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  ChatOptions options;
  options.logprobs = body.boolean("logprobs").value_or(false);
  if (top > 0 && !options.logprobs) fail("top_logprobs is {}, but logprobs is not true; set it too", top);
  if (options.logprobs) request.logprobs = static_cast<std::int32_t>(top);
  read_scheduling(body, request);
  read_prediction(body, tokenizer_, std::span(&request, 1));
  options.return_token_ids = body.boolean("return_token_ids").value_or(false);
  options.return_draft_info = body.boolean("return_draft_info").value_or(false);
  options.tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);

  if (options.logprobs) {
    check_logprobs(static_cast<std::size_t>(request.sampling.n), max_generated(request.sampling, request.prompt.size()),
                   *request.logprobs);
  }
  Work work{.id_prefix = "chatcmpl", .object = "chat.completion", .chunk_object = "chat.completion.chunk"};
  if (read_choice_logprobs(body, request.sampling)) {
    work.num_guided_lists = static_cast<std::size_t>(request.sampling.n);
  }
  work.requests.push_back(std::move(request));
  work.write = [this, options](JobResult& result, const ChoiceLogprobs& guided, nlohmann::ordered_json& answer) {
    const TokenTexts texts(tokenizer_, options.tokens_as_ids);
    nlohmann::ordered_json& choices = answer["choices"] = nlohmann::ordered_json::array();
    for (const ChoiceResult& choice : result.front()) {
      nlohmann::ordered_json item = {
          {"index", choices.size()},
          {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
          {"logprobs", nullptr},
          {"finish_reason", to_string(choice.finish)}};
      if (options.logprobs) item["logprobs"] = logprobs_json(texts, choice.tokens);
      if (!guided.empty()) item["choice_logprobs"] = guided.front();
      if (options.return_token_ids) item["token_ids"] = ids_of(choice.tokens);
      item["seed"] = choice.seed;
      choices.push_back(std::move(item));
    }
  };
  work.chunks = [this, options]() -> std::unique_ptr<ChunkWriter> {
    return std::make_unique<ChatChunks>(tokenizer_, options);
  };
  return work;
}

}  // namespace mortise
