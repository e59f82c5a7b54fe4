#include "openai/job.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

struct Job {
  std::mutex mutex;  // submit() runs beside the engine's first answers
  JobResult result;
  std::string error;
  std::size_t open = 0;  // choices that have not finished
  JobDone done;

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

  // Does not wait for `n` choices. REQUIRES: others are open.
  void leave_out(std::size_t n) {
    const std::lock_guard lock(mutex);
    open -= n;
  }
};

// A job whose requests come in turns. The sinks hold it; whoever has a request ended starts those that have room then.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  Turns(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done)
      : engine_(engine), requests_(std::move(requests)), max_open_tokens_(max_open_tokens) {
    job_.result.assign(requests_.count, std::vector<ChoiceResult>(1));
    job_.open = requests_.count;
    job_.done = std::move(done);
  }

  void start() {
    while (auto next = take_next()) submit(next->first, std::move(next->second));
  }

 private:
  std::optional<std::pair<std::size_t, Request>> take_next() {
    const std::lock_guard lock(mutex_);
    if (next_ == requests_.count || (open_tokens_ > 0 && open_tokens_ >= max_open_tokens_)) return std::nullopt;
    std::pair<std::size_t, Request> next(next_, requests_.make(next_));
    ++next_;
    open_tokens_ += next.second.prompt.size();
    return next;
  }

  void submit(std::size_t index, Request request) {
    const auto take = [self = shared_from_this(), index, num_tokens = request.prompt.size()](const Delta& delta) {
      self->take(index, num_tokens, delta);
    };
    try {
      engine_.submit(std::move(request), take);
    } catch (const Error& error) {  // it passed the checks, so this is for want of something else
      Delta delta;
      delta.finish = FinishReason::kError;
      delta.error = error.what();
      take(delta);
    }
  }

  void take(std::size_t index, std::size_t num_tokens, const Delta& delta) {
    // The answer is an error already, or the engine ends: the others would run for nothing, or never.
    if (delta.finish == FinishReason::kError || delta.finish == FinishReason::kAborted) leave_out_the_rest();
    job_.take(index, delta);
    if (delta.finish == FinishReason::kNone) return;
    {
      const std::lock_guard lock(mutex_);
      open_tokens_ -= num_tokens;
    }
    start();
  }

  void leave_out_the_rest() {
    const std::lock_guard lock(mutex_);
    job_.leave_out(requests_.count - next_);
    next_ = requests_.count;
  }

  Engine& engine_;
  const RequestSeries requests_;
  const std::size_t max_open_tokens_;
  Job job_;
  std::mutex mutex_;  // guards what follows: sinks run beside start()
  std::size_t next_ = 0;
  std::size_t open_tokens_ = 0;
};

}  // namespace

void run_job(Engine& engine, std::vector<Request> requests, JobDone done) {
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

void run_job(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done) {
  if (requests.count == 0) return done({}, {});
  std::make_shared<Turns>(engine, std::move(requests), max_open_tokens, std::move(done))->start();
}

}  // namespace mortise
