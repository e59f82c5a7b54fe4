// POST /v1/score: log probabilities of given completions after one prompt. Splitting into tokens: score_tokens.hpp.
#include <memory>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"
#include "openai/body.hpp"
#include "openai/score_tokens.hpp"
#include "openai/service.hpp"
#include "openai/unserved_fields.hpp"

namespace mortise {
namespace {

// Everything that the requests of a body are made from. Shared, because they are made one by one.
struct ScoreWork {
  std::vector<ScoreTokens> completions;
  Request plain;  // the part that all requests have in common
};

std::shared_ptr<ScoreWork> read_work(const Body& body, const Tokenizer& tokenizer, const Engine& engine) {
  const nlohmann::json& completions = body.require("completions");
  if (!completions.is_array()) fail_type("completions", "a list", completions);
  check_count(completions.size(), "completions");
  auto work = std::make_shared<ScoreWork>();
  work->plain.sampling.max_tokens = 0;
  read_scheduling(body, work->plain);
  ScoreSplitter splitter(body.require("prompt"), tokenizer, body.boolean("add_special_tokens").value_or(true));
  if (!splitter.prompt().empty()) {
    Request alone = work->plain;
    alone.prompt = splitter.prompt();
    engine.check(alone);
  }
  std::size_t num_tokens = 0;
  for (const nlohmann::json& completion : completions) {
    work->completions.push_back(splitter.split(completion, fmt::format("completions[{}]", work->completions.size())));
    num_tokens += work->completions.back().completion.size();
    if (num_tokens <= kMaxLogprobs) continue;
    fail("completions: the first {} of {} have {} tokens, but at most {} are scored for one body: send several bodies",
         work->completions.size(), completions.size(), num_tokens, kMaxLogprobs);
  }
  return work;
}

Request make_request(const ScoreWork& work, std::size_t index) {
  const auto& [prompt, completion] = work.completions[index];
  Request request = work.plain;
  request.prompt.reserve(prompt->size() + completion.size());
  request.prompt = *prompt;
  request.prompt.insert(request.prompt.end(), completion.begin(), completion.end());
  request.score_from = static_cast<std::int32_t>(prompt->size());
  return request;
}

void check(const Engine& engine, const ScoreWork& work) {
  for (std::size_t i = 0; i < work.completions.size(); ++i) {
    try {
      engine.check(make_request(work, i));
    } catch (const Error& error) {
      fail(error.code(), "completions[{}], with the prompt before it: {}", i, error.what());
    }
  }
}

}  // namespace

Abort Service::score(const nlohmann::json& json, const AnswerStamp& stamp, std::function<void(Answer)> done) {
  const auto work = read_work(Body(json), tokenizer_, engine_);
  refuse_unserved_fields("/v1/score", json);
  stamp.put_on(work->plain);
  check(engine_, *work);
  const auto make = [this, stamp](const JobResult& result) {
    nlohmann::ordered_json answer = answer_head("score", "score", info_, stamp);
    auto list = nlohmann::ordered_json::array();
    for (const auto& choices : result) list.push_back(scored_json(choices.front().prompt));
    answer["completions"] = std::move(list);
    answer["usage"] = usage_json(result, stamp);
    return answer;
  };
  RequestSeries requests{work->completions.size(), [work](std::size_t index) { return make_request(*work, index); }};
  return run_job(engine_, std::move(requests), kMaxOpenTokens,
                 [make, done = std::move(done)](const JobResult& result, const std::optional<Error>& error) {
                   done(make_answer(error, [&] { return make(result); }));
                 });
}

}  // namespace mortise
