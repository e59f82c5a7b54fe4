// POST /v1/chat/completions: messages in, an assistant's message out.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/choice_logprobs.hpp"
#include "openai/prediction.hpp"
#include "openai/service.hpp"

namespace mortise {
namespace {

// Checks the messages and joins content parts of type text, so that a template sees strings only.
nlohmann::json read_messages(const nlohmann::json& json) {
  if (!json.is_array() || json.empty()) fail_type("messages", "a list of at least one message", json);
  nlohmann::json messages = json;
  for (nlohmann::json& message : messages) {
    const Body fields(message, "messages: a message");
    if (!fields.string("role")) fail("messages: a message has no role");
    if (const nlohmann::json* parts = fields.find("content"); parts != nullptr && parts->is_array()) {
      std::string text;
      for (const nlohmann::json& part : *parts) {
        const Body content(part, "messages: content part");
        if (content.string("type").value_or("") != "text") fail_type("messages: content part", "type \"text\"", part);
        text += content.string("text").value_or("");
      }
      message["content"] = text;
    } else if (!fields.string("content")) {
      message["content"] = "";
    }
  }
  return messages;
}

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

}  // namespace

void Service::chat(const nlohmann::json& json, const AnswerStamp& stamp, std::function<void(Answer)> done) {
  const Body body(json);
  const nlohmann::json messages = read_messages(body.require("messages"));
  if (!info_.chat_template) fail("this pipeline has no chat_template(messages) function; define one in its script");

  Request request;
  request.prompt = chat_tokens(info_.chat_template(messages), tokenizer_);
  SamplingParams defaults = info_.defaults;
  defaults.max_tokens = std::max(1, info_.max_model_len - static_cast<std::int32_t>(request.prompt.size()));
  request.sampling = read_sampling(body, std::move(defaults));
  if (const auto limit = body.integer("max_completion_tokens", 0, INT32_MAX)) {
    request.sampling.max_tokens = static_cast<std::int32_t>(*limit);
  }
  const std::int64_t top = body.integer("top_logprobs", 0, kMaxTopLogprobs).value_or(0);
  const bool logprobs = body.boolean("logprobs").value_or(false);
  if (top > 0 && !logprobs) fail("top_logprobs is {}, but logprobs is not true; set it too", top);
  if (logprobs) request.logprobs = static_cast<std::int32_t>(top);
  read_scheduling(body, request);
  read_prediction(body, tokenizer_, std::span(&request, 1));
  const bool return_token_ids = body.boolean("return_token_ids").value_or(false);
  const bool tokens_as_ids = body.boolean("return_tokens_as_token_ids").value_or(false);

  if (logprobs) {
    check_logprobs(static_cast<std::size_t>(request.sampling.n), max_generated(request.sampling, request.prompt.size()),
                   *request.logprobs);
  }
  const bool choice_logprobs = read_choice_logprobs(body, request.sampling);
  const auto make = [this, stamp, logprobs, return_token_ids, tokens_as_ids](const JobResult& result,
                                                                             const ChoiceLogprobs& guided) {
    const TokenTexts texts(tokenizer_, tokens_as_ids);
    nlohmann::ordered_json answer = answer_head("chatcmpl", "chat.completion", info_, stamp);
    auto choices = nlohmann::ordered_json::array();
    for (const ChoiceResult& choice : result.front()) {
      nlohmann::ordered_json item = {
          {"index", choices.size()},
          {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
          {"logprobs", nullptr},
          {"finish_reason", to_string(choice.finish)}};
      if (logprobs) item["logprobs"] = logprobs_json(texts, choice.tokens);
      if (!guided.empty()) item["choice_logprobs"] = guided.front();
      if (return_token_ids) item["token_ids"] = ids_of(choice.tokens);
      item["seed"] = choice.seed;
      choices.push_back(std::move(item));
    }
    answer["choices"] = std::move(choices);
    answer["usage"] = usage_json(result, stamp);
    return answer;
  };
  const auto n = static_cast<std::size_t>(request.sampling.n);
  std::vector<Request> requests{std::move(request)};
  run_job_with_choices(engine_, std::move(requests), choice_logprobs ? n : 0,
                       [make, done = std::move(done)](const JobResult& result, const ChoiceLogprobs& guided,
                                                      const std::optional<Error>& error) {
                         done(make_answer(error, [&] { return make(result, guided); }));
                       });
}

}  // namespace mortise
