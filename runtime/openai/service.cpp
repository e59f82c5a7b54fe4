#include "openai/service.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {

namespace {

// "code" of an error's body, for programs; null where OpenAI has none either.
nlohmann::ordered_json code_name(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
      break;
    case ErrorCode::kNotFound:
      return "not_found";
    case ErrorCode::kTooLarge:
      return "context_length_exceeded";
    case ErrorCode::kOverloaded:
      return "overloaded";
    case ErrorCode::kDeadlineExceeded:
      return "deadline_exceeded";
    case ErrorCode::kInternal:
      return "internal_error";
    case ErrorCode::kUnavailable:
      return "unavailable";
  }
  return nullptr;
}

}  // namespace

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kTooLarge:
      return 400;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kOverloaded:
      return 429;
    case ErrorCode::kInternal:
      break;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
  }
  return 500;
}

Answer error_answer(const Error& error) {
  const int status = status_of(error.code());
  const char* type = status >= 500 ? "server_error" : status == 429 ? "rate_limit_error" : "invalid_request_error";
  Answer answer{
      status,
      {{"error", {{"message", error.what()}, {"type", type}, {"param", nullptr}, {"code", code_name(error.code())}}}},
      std::nullopt};
  if (const auto* overloaded = dynamic_cast<const OverloadedError*>(&error)) {
    answer.retry_after_s = overloaded->retry_after_s();
  }
  return answer;
}

Service::Service(Engine& engine, const Tokenizer& tokenizer, ServiceInfo info)
    : engine_(engine), tokenizer_(tokenizer), info_(std::move(info)) {}

void Service::handle(const std::string& url, const nlohmann::json& body, std::function<void(Answer)> done,
                     const AnswerStamp& stamp) {
  try {
    if (url == "/v1/completions") return complete(body, stamp, done);
    if (url == "/v1/chat/completions") return chat(body, stamp, done);
    if (url == "/v1/score") return score(body, stamp, done);
    fail(ErrorCode::kNotFound, "url {} is not one of /v1/completions, /v1/chat/completions, /v1/score", quote(url));
  } catch (const Error& error) {
    done(error_answer(error));
  }
}

std::size_t Service::max_generated(const SamplingParams& sampling, std::size_t num_prompt) const {
  const auto room = static_cast<std::int64_t>(info_.max_model_len) - static_cast<std::int64_t>(num_prompt);
  std::int64_t most = sampling.max_tokens;
  if (!sampling.choices.empty()) {
    // A token of a text has a byte of it at least, and an end token may follow.
    std::size_t longest = 0;
    for (const GuidedChoice& choice : sampling.choices) {
      longest = std::max(longest, std::visit([](const auto& of) { return of.size(); }, choice));
    }
    most = std::min(most, static_cast<std::int64_t>(longest) + 1);
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(room, 0, most));
}

}  // namespace mortise
