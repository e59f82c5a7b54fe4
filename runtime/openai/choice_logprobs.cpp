#include "openai/choice_logprobs.hpp"

#include <memory>
#include <mutex>
#include <utility>

#include "error.hpp"
#include "openai/answers.hpp"

namespace mortise {
namespace {

// A choice to score: the index of its request, its own index, and its tokens.
struct ScoredChoice {
  std::size_t request = 0;
  GuidedChoice choice;
  std::vector<std::int32_t> tokens;
};

struct ChoiceWork {
  std::vector<Request> prompts;  // for each request, the part that all its scores have in common
  std::vector<ScoredChoice> choices;
};

// The size of a list entry besides its tokens, counted in log probabilities: names, brackets and the choice itself.
constexpr std::size_t kEntrySize = 8;

// Throws if the lists would make an answer too large for memory or for a line.
void check_lists(std::size_t num_logprobs, const std::vector<Request>& requests, std::size_t n) {
  if (num_logprobs <= kMaxLogprobs) return;
  fail(
      "choice_logprobs: the log probabilities of {} choices after each of {} prompts, for each of n = {} answers, are "
      "more than the {} values that one body may ask for; lower n, send several bodies, or use /v1/score, which "
      "returns them once",
      requests.front().sampling.choices.size(), requests.size(), n, kMaxLogprobs);
}

std::shared_ptr<const ChoiceWork> make_work(const Engine& engine, const std::vector<Request>& requests, std::size_t n) {
  auto work = std::make_shared<ChoiceWork>();
  std::size_t num_logprobs = 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Request& request = requests[i];
    std::vector<std::vector<std::int32_t>> tokens = engine.choice_tokens(request);
    for (std::size_t j = 0; j < tokens.size(); ++j) {
      num_logprobs += (tokens[j].size() + kEntrySize) * n;  // each of the n answers has the list
      work->choices.push_back({i, request.sampling.choices[j], std::move(tokens[j])});
    }
    check_lists(num_logprobs, requests, n);
    Request& prompt = work->prompts.emplace_back();
    prompt.prompt = request.prompt;
    prompt.sampling.max_tokens = 0;
    prompt.score_from = static_cast<std::int32_t>(request.prompt.size());
    prompt.priority = request.priority;
    prompt.group = request.group;
    prompt.speculation = request.speculation;
    prompt.deadline = request.deadline;
    prompt.client_id = request.client_id;
  }
  return work;
}

Request make_request(const ChoiceWork& work, std::size_t index) {
  const ScoredChoice& scored = work.choices[index];
  Request request = work.prompts[scored.request];
  request.prompt.insert(request.prompt.end(), scored.tokens.begin(), scored.tokens.end());
  return request;
}

ChoiceLogprobs lists_of(const ChoiceWork& work, const JobResult& scores) {
  ChoiceLogprobs lists(work.prompts.size(), nlohmann::ordered_json::array());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    nlohmann::ordered_json entry;
    std::visit([&](const auto& choice) { entry["choice"] = choice; }, work.choices[i].choice);
    entry.update(scored_json(scores[i].front().prompt));
    lists[work.choices[i].request].push_back(std::move(entry));
  }
  return lists;
}

// The results of both jobs, until both are complete.
struct Halves {
  std::mutex mutex;
  JobResult answers, scores;
  std::optional<Error> error;
  int num_open = 2;
  std::shared_ptr<const ChoiceWork> work;
  std::function<void(JobResult, ChoiceLogprobs, std::optional<Error>)> done;

  void take(JobResult Halves::*half, JobResult result, std::optional<Error> why) {
    std::unique_lock lock(mutex);
    this->*half = std::move(result);
    if (!error) error = std::move(why);
    if (--num_open > 0) return;
    lock.unlock();
    ChoiceLogprobs lists;
    if (!error) lists = lists_of(*work, scores);
    done(std::move(answers), std::move(lists), std::move(error));
  }
};

}  // namespace

bool read_choice_logprobs(const Body& body, const SamplingParams& sampling) {
  const bool wanted = body.boolean("choice_logprobs").value_or(false);
  if (wanted && sampling.choices.empty()) {
    fail("choice_logprobs is true, but there are no choices; name them in 'choices', or leave it out");
  }
  return wanted;
}

Abort run_job_with_choices(Engine& engine, std::vector<Request> requests, std::size_t n, AnswerObserver* observer,
                           std::function<void(JobResult, ChoiceLogprobs, std::optional<Error>)> done) {
  if (n == 0) {
    return run_job(engine, std::move(requests), observer,
                   [done = std::move(done)](JobResult result, std::optional<Error> error) {
                     done(std::move(result), {}, std::move(error));
                   });
  }
  const auto halves = std::make_shared<Halves>();
  halves->work = make_work(engine, requests, n);
  halves->done = std::move(done);
  const auto take = [halves](JobResult Halves::*half) {
    return [halves, half](JobResult result, std::optional<Error> error) {
      halves->take(half, std::move(result), std::move(error));
    };
  };
  // The answers are submitted first, so that their prompts are in the cache, or being computed, when the choices
  // follow. If the engine takes both at once, the choices run after the prompt of their answer.
  Abort answers = run_job(engine, std::move(requests), observer, take(&Halves::answers));
  RequestSeries scores{halves->work->choices.size(),
                       [work = halves->work](std::size_t index) { return make_request(*work, index); }};
  Abort choices = run_job(engine, std::move(scores), kMaxOpenTokens, take(&Halves::scores));
  return [answers = std::move(answers), choices = std::move(choices)] {
    if (answers) answers();
    if (choices) choices();
  };
}

}  // namespace mortise
