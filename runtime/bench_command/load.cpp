#include "bench_command/load.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "error.hpp"

namespace mortise::bench {
namespace {

using Clock = std::chrono::steady_clock;

void append_tokens(std::vector<std::int32_t>& tokens, std::int64_t count, std::int32_t vocab_size,
                   std::mt19937& random) {
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab_size)));
  }
}

Request make_request(std::vector<std::int32_t> prompt, std::int64_t output) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = static_cast<std::int32_t>(output);
  return request;
}

// Collects what the sinks of one load receive. Times are those at which the engine sent the tokens, however late they
// are read. Thread-safe.
class Progress {
 public:
  explicit Progress(std::size_t num_requests) : num_requests_(num_requests) {}

  void take(const Delta& delta, bool& started) {
    const std::lock_guard lock(mutex_);
    std::size_t begin = 0;
    for (const Delta::Merged& merged : delta.earlier) {
      add_tokens(merged.sent, merged.end - begin, started);
      begin = merged.end;
    }
    add_tokens(delta.sent, delta.tokens.size() - begin, started);
    if (delta.finish == FinishReason::kNone) return;
    if (delta.finish == FinishReason::kError && error_.empty()) error_ = delta.error;
    result_.cached_tokens += delta.usage.cached_tokens;
    result_.draft_tokens += delta.usage.draft_tokens;
    result_.accepted_tokens += delta.usage.accepted_tokens;
    end_ = std::max(end_, delta.sent);
    if (++num_finished_ == num_requests_) all_finished_.notify_one();
  }

  LoadResult wait() {
    std::unique_lock lock(mutex_);
    all_finished_.wait(lock, [&] { return num_finished_ == num_requests_; });
    if (!error_.empty()) fail("bench: the engine ended a request: {}", error_);
    const auto seconds = [&](Clock::time_point time) { return std::chrono::duration<double>(time - start_).count(); };
    result_.all_first_s = seconds(all_first_);
    result_.end_s = seconds(end_);
    for (const auto& [sent, num_tokens] : tokens_) {
      result_.num_tokens += num_tokens;
      if (sent > all_first_) result_.tokens_after_first += num_tokens;
    }
    return result_;
  }

 private:
  void add_tokens(Clock::time_point sent, std::size_t num_tokens, bool& started) {
    if (!std::exchange(started, true)) all_first_ = std::max(all_first_, sent);
    tokens_[sent] += static_cast<std::int64_t>(num_tokens);
  }

  const std::size_t num_requests_;
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards the members below
  std::condition_variable all_finished_;
  LoadResult result_;
  Clock::time_point all_first_ = start_, end_ = start_;
  std::map<Clock::time_point, std::int64_t> tokens_;  // by the step that made them
  std::string error_;
  std::size_t num_finished_ = 0;
};

}  // namespace

std::vector<Request> make_requests(const std::vector<SequenceShape>& sequences, std::int32_t vocab_size,
                                   std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (const SequenceShape& sequence : sequences) {
    std::vector<std::int32_t> prompt;
    append_tokens(prompt, sequence.prompt, vocab_size, random);
    requests.push_back(make_request(std::move(prompt), sequence.output));
  }
  return requests;
}

std::vector<std::int64_t> PrefixGroupLoad::group_sizes() const {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(num_groups), per_group);
  if (largest > 0) sizes.push_back(largest);
  return sizes;
}

std::int64_t PrefixGroupLoad::num_different() const {
  const std::int64_t num_prefixes = num_groups + (largest > 0 ? 1 : 0);
  return num_prefixes * shared + (num_groups * per_group + largest) * own;
}

std::vector<SequenceShape> group_shapes(const PrefixGroupLoad& load) {
  std::vector<SequenceShape> shapes;
  for (const std::int64_t members : load.group_sizes()) {
    for (std::int64_t i = 0; i < members; ++i) {
      shapes.push_back({load.shared + load.own, load.output, i == 0 ? 0 : load.shared});
    }
  }
  return shapes;
}

std::vector<Request> make_group_requests(const PrefixGroupLoad& load, std::int32_t vocab_size, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Request> requests;
  for (const std::int64_t members : load.group_sizes()) {
    std::vector<std::int32_t> shared;
    append_tokens(shared, load.shared, vocab_size, random);
    for (std::int64_t i = 0; i < members; ++i) {
      std::vector<std::int32_t> prompt = shared;
      append_tokens(prompt, load.own, vocab_size, random);
      requests.push_back(make_request(std::move(prompt), load.output));
    }
  }
  std::shuffle(requests.begin(), requests.end(), random);
  return requests;
}

std::vector<SequenceShape> mixed_shapes(std::int64_t count, std::int64_t prompt, std::int64_t output,
                                        std::uint32_t seed) {
  constexpr std::int64_t kMinPrompt = 16, kMinOutput = 8;
  std::mt19937 random(seed);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::min(least, most) + static_cast<std::int64_t>(random()) % (std::max(most - least, std::int64_t{0}) + 1);
  };
  std::vector<SequenceShape> shapes;
  for (std::int64_t i = 0; i < count; ++i) shapes.push_back({draw(kMinPrompt, prompt), draw(kMinOutput, output), 0});
  return shapes;
}

LoadResult run_load(Engine& engine, std::vector<Request> requests) {
  const EngineStats before = engine.stats();
  std::vector<RequestId> submitted;
  // Shared with the sinks: if a request is refused, those submitted before it still end.
  const auto progress = std::make_shared<Progress>(requests.size());
  try {
    for (Request& request : requests) {
      submitted.push_back(engine.submit(std::move(request), [progress, started = false](const Delta& delta) mutable {
        progress->take(delta, started);
      }));
    }
  } catch (const Error&) {
    for (const RequestId id : submitted) engine.abort(id);
    throw;
  }
  LoadResult result = progress->wait();
  const EngineStats after = engine.stats();
  result.num_preemptions = after.num_preemptions - before.num_preemptions;
  result.computed_tokens = static_cast<std::int64_t>(after.num_admitted_tokens - before.num_admitted_tokens) -
                           static_cast<std::int64_t>(after.num_cached_tokens - before.num_cached_tokens);
  return result;
}

}  // namespace mortise::bench
