#include "openai/job.hpp"

#include <iterator>
#include <utility>

namespace mortise {
namespace {

struct Job {
  std::mutex mutex;  // submit() runs beside the engine's first answers
  JobResult result;
  std::string error;
  std::size_t open = 0;  // choices that have not finished
  std::function<void(JobResult, std::string)> done;

  void take(std::size_t request, const Delta& delta) {
    std::unique_lock lock(mutex);
    ChoiceResult& choice = result[request][static_cast<std::size_t>(delta.choice)];
    choice.tokens.insert(choice.tokens.end(), delta.tokens.begin(), delta.tokens.end());
    choice.text += delta.text;
    if (delta.finish == FinishReason::kNone) return;
    choice.prompt = delta.prompt;
    choice.finish = delta.finish;
    choice.stop_token = delta.stop_token;
    choice.seed = delta.seed;
    choice.usage = delta.usage;
    if (error.empty() && delta.finish == FinishReason::kError) error = delta.error;
    if (--open > 0) return;
    lock.unlock();
    done(std::move(result), std::move(error));
  }
};

}  // namespace

void run_job(Engine& engine, std::vector<Request> requests, std::function<void(JobResult, std::string)> done) {
  const auto job = std::make_shared<Job>();
  for (const Request& request : requests) {
    job->result.emplace_back(static_cast<std::size_t>(std::max(1, request.sampling.n)));
    job->open += job->result.back().size();
  }
  job->done = std::move(done);
  if (requests.empty()) return job->done({}, {});
  std::vector<RequestId> submitted;
  try {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      submitted.push_back(engine.submit(std::move(requests[i]), [job, i](const Delta& delta) { job->take(i, delta); }));
    }
  } catch (...) {
    // `done` is never called: the choices that were not submitted stay open.
    for (RequestId id : submitted) engine.abort(id);
    throw;
  }
}

}  // namespace mortise
