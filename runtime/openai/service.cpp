#include "openai/service.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "error.hpp"
#include "json/bounded_json.hpp"

namespace mortise {

Answer error_answer(int status, const std::string& message) {
  const char* type = status >= 500 ? "server_error" : "invalid_request_error";
  return {status, {{"error", {{"message", message}, {"type", type}, {"param", nullptr}, {"code", nullptr}}}}};
}

Service::Service(Engine& engine, const Tokenizer& tokenizer, ServiceInfo info)
    : engine_(engine), tokenizer_(tokenizer), info_(std::move(info)) {}

void Service::handle(const std::string& url, const nlohmann::json& body, std::function<void(Answer)> done,
                     const AnswerStamp& stamp) {
  try {
    if (url == "/v1/completions") return complete(body, stamp, done);
    if (url == "/v1/chat/completions") return chat(body, stamp, done);
    if (url == "/v1/score") return score(body, stamp, done);
    done(error_answer(404, "url " + quote(url) + " is not one of /v1/completions, /v1/chat/completions, /v1/score"));
  } catch (const Error& error) {
    done(error_answer(400, error.what()));
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
