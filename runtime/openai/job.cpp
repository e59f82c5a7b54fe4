#include "openai/job.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

struct Job {
  std::mutex mutex;  // requests are delivered on several threads, also during submit()
  JobResult result;
  std::optional<Error> error;
  std::size_t open = 0;  // choices that have not ended
  JobDone done;
  AnswerObserver* observer = nullptr;
  std::chrono::steady_clock::time_point arrival = std::chrono::steady_clock::now();

  // Takes a choice as a whole: the requests are submitted with News::kAtTheEnd.
  void take(std::size_t request, Delta&& delta) {
    ChoiceTimes times{.arrival = arrival};
    if (observer != nullptr) observer->saw(times, delta);
    std::unique_lock lock(mutex);
    ChoiceResult& choice = result[request][static_cast<std::size_t>(delta.choice)];
    choice.tokens = std::move(delta.tokens);
    choice.text = std::move(delta.text);
    choice.prompt = std::move(delta.prompt);
    choice.finish = delta.finish;
    choice.stop_token = delta.stop_token;
    choice.seed = delta.seed;
    choice.usage = delta.usage;
    if (!error && delta.finish == FinishReason::kError) error = Error(delta.error, delta.code);
    if (--open > 0) return;
    lock.unlock();
    done(std::move(result), std::move(error));
  }

  // Stops waiting for `n` choices that will not run.
  // REQUIRES: other choices are open.
  void leave_out(std::size_t n) {
    const std::lock_guard lock(mutex);
    open -= n;
  }
};

// A job whose requests run in turn. The sinks of its requests keep it alive. The thread that delivers a request's end
// starts the requests that then have room. Thread-safe: start() and the sinks of several requests run at the same time.
class Turns : public std::enable_shared_from_this<Turns> {
 public:
  Turns(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done)
      : engine_(engine), requests_(std::move(requests)), max_open_tokens_(max_open_tokens) {
    job_.result.assign(requests_.count, std::vector<ChoiceResult>(1));
    job_.open = requests_.count;
    job_.done = std::move(done);
  }

  void start() {
    while (auto next = take_next()) {
      if (!submit(next->first, std::move(next->second))) return;
    }
  }

  // Aborts the running requests; the first of them to end also drops the requests that have not started.
  void abort() {
    std::vector<RequestId> open;
    {
      const std::lock_guard lock(mutex_);
      aborted_ = true;
      for (const auto& [index, id] : running_) open.push_back(id);
    }
    for (RequestId id : open) engine_.abort(id);
  }

 private:
  std::optional<std::pair<std::size_t, Request>> take_next() {
    const std::lock_guard lock(mutex_);
    if (refused_.empty() && next_ == requests_.count) return std::nullopt;
    if (num_open_ > 0 && open_tokens_ >= max_open_tokens_) return std::nullopt;
    std::size_t index = next_;
    if (refused_.empty()) {
      ++next_;
    } else {
      index = refused_.back();
      refused_.pop_back();
    }
    std::pair<std::size_t, Request> next(index, requests_.make(index));
    ++num_open_;
    open_tokens_ += next.second.prompt.size();
    return next;
  }

  // Returns false if the engine has no room; the next request that ends starts this one again.
  bool submit(std::size_t index, Request request) {
    const std::size_t num_tokens = request.prompt.size();
    const auto take = [self = shared_from_this(), index, num_tokens](Delta&& delta) {
      self->take(index, num_tokens, std::move(delta));
    };
    try {
      started(index, engine_.submit(std::move(request), take, News::kAtTheEnd));
    } catch (const Error& error) {  // it passed the checks, so the engine lacks room or memory
      if (error.code() == ErrorCode::kOverloaded && put_back(index, num_tokens)) return false;
      Delta delta;
      delta.finish = FinishReason::kError;
      delta.error = error.what();
      delta.code = error.code();
      take(std::move(delta));
    }
    return true;
  }

  void started(std::size_t index, RequestId id) {
    std::unique_lock lock(mutex_);
    if (ended_early_.erase(index) > 0) return;
    running_[index] = id;
    const bool aborted = aborted_;
    lock.unlock();
    if (aborted) engine_.abort(id);
  }

  // Returns false if no other request is open, so that none would start this one.
  bool put_back(std::size_t index, std::size_t num_tokens) {
    const std::lock_guard lock(mutex_);
    if (num_open_ == 1) return false;
    --num_open_;
    open_tokens_ -= num_tokens;
    refused_.push_back(index);
    return true;
  }

  void take(std::size_t index, std::size_t num_tokens, Delta&& delta) {
    // The answer is an error already, or the engine ends: further requests would be useless, or would never run.
    if (delta.finish == FinishReason::kError || delta.finish == FinishReason::kAborted) leave_out_the_rest();
    job_.take(index, std::move(delta));
    {
      const std::lock_guard lock(mutex_);
      --num_open_;
      open_tokens_ -= num_tokens;
      if (running_.erase(index) == 0) ended_early_.insert(index);
    }
    start();
  }

  void leave_out_the_rest() {
    const std::lock_guard lock(mutex_);
    job_.leave_out(requests_.count - next_ + refused_.size());
    next_ = requests_.count;
    refused_.clear();
  }

  Engine& engine_;
  const RequestSeries requests_;
  const std::size_t max_open_tokens_;
  Job job_;
  std::mutex mutex_;  // guards the members below
  std::size_t next_ = 0;
  std::vector<std::size_t> refused_;  // indices before next_ that the engine refused for lack of room
  std::size_t num_open_ = 0, open_tokens_ = 0;
  std::map<std::size_t, RequestId> running_;  // by index of the request
  std::set<std::size_t> ended_early_;         // ended before submit() returned their id
  bool aborted_ = false;
};

}  // namespace

Abort run_job(Engine& engine, std::vector<Request> requests, AnswerObserver* observer, JobDone done) {
  const auto job = std::make_shared<Job>();
  job->observer = observer;
  for (const Request& request : requests) {
    job->result.emplace_back(static_cast<std::size_t>(std::max(1, request.sampling.n)));
    job->open += job->result.back().size();
  }
  job->done = std::move(done);
  if (requests.empty()) {
    job->done({}, {});
    return nullptr;
  }
  job->arrival = requests.front().arrival.value_or(job->arrival);
  std::vector<RequestId> submitted;
  try {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      requests[i].follows = i > 0;
      submitted.push_back(engine.submit(
          std::move(requests[i]), [job, i](Delta&& delta) { job->take(i, std::move(delta)); }, News::kAtTheEnd));
    }
  } catch (...) {
    // `done` is never called, because the choices that were not submitted stay open.
    for (RequestId id : submitted) engine.abort(id);
    throw;
  }
  return [&engine, submitted = std::move(submitted)] {
    for (RequestId id : submitted) engine.abort(id);
  };
}

Abort run_job(Engine& engine, RequestSeries requests, std::size_t max_open_tokens, JobDone done) {
  if (requests.count == 0) {
    done({}, {});
    return nullptr;
  }
  const auto turns = std::make_shared<Turns>(engine, std::move(requests), max_open_tokens, std::move(done));
  turns->start();
  return [weak = std::weak_ptr(turns)] {
    if (const auto there = weak.lock()) there->abort();
  };
}

}  // namespace mortise
