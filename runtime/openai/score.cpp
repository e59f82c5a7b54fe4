// POST /v1/score: log probabilities of completions given one prompt. A completion's tokens are those of its own text,
// put behind the prompt's; what the post-processor adds (a first token) goes before the prompt only.
#include <algorithm>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/service.hpp"

namespace mortise {
namespace {

constexpr std::size_t kMaxCopiedTokens = std::size_t{64} << 20;  // of the prompt: 256 MiB

nlohmann::ordered_json completion_json(const std::vector<TokenInfo>& tokens) {
  double sum = 0;
  bool is_greedy = true;
  auto logprobs = nlohmann::ordered_json::array(), ranks = nlohmann::ordered_json::array();
  for (const TokenInfo& token : tokens) {
    sum += finite_logprob(token.logprob);
    is_greedy = is_greedy && token.rank == 1;
    logprobs.push_back(finite_logprob(token.logprob));
    ranks.push_back(token.rank);
  }
  return {{"logprob", sum},
          {"token_ids", ids_of(tokens)},
          {"token_logprobs", std::move(logprobs)},
          {"ranks", std::move(ranks)},
          {"is_greedy", is_greedy}};
}

}  // namespace

void Service::score(const nlohmann::json& json, const AnswerStamp& stamp, std::function<void(Answer)> done) {
  const Body body(json);
  const std::vector<std::int32_t> prompt = read_tokens(body.require("prompt"), "prompt", tokenizer_, true);
  if (prompt.empty()) fail("prompt is empty; the first token of a completion needs one before it");
  const nlohmann::json& completions = body.require("completions");
  if (!completions.is_array()) fail_type("completions", "a list", completions);
  check_amount(completions.size(), {});
  if (prompt.size() * completions.size() > kMaxCopiedTokens) {
    fail("{} completions of a prompt of {} tokens are too many for one body, as each gets a copy; send several bodies",
         completions.size(), prompt.size());
  }
  std::vector<Request> requests;
  for (const nlohmann::json& completion : completions) {
    const std::vector<std::int32_t> ids = read_tokens(completion, "completions", tokenizer_, false);
    Request request;
    request.prompt = prompt;
    request.prompt.insert(request.prompt.end(), ids.begin(), ids.end());
    request.score_from = static_cast<std::int32_t>(prompt.size());
    request.sampling.max_tokens = 0;
    read_scheduling(body, request);
    requests.push_back(std::move(request));
  }
  run_answer(
      engine_, std::move(requests),
      [this, stamp](JobResult result) {
        nlohmann::ordered_json answer = answer_head("score", "score", info_, stamp);
        auto list = nlohmann::ordered_json::array();
        for (const auto& choices : result) list.push_back(completion_json(choices.front().prompt));
        answer["completions"] = std::move(list);
        answer["usage"] = usage_json(result, stamp);
        return answer;
      },
      std::move(done));
}

}  // namespace mortise
