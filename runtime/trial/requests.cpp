#include "trial/requests.hpp"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "error.hpp"

namespace mortise {
namespace {

constexpr std::int32_t kMaxPrompt = 600;  // tokens of the longest prompt
constexpr std::int32_t kShort = 40;       // tokens of the other prompts

// Pseudo-random tokens.
std::vector<std::int32_t> some_tokens(std::int32_t count, std::uint32_t seed, std::int32_t vocab_size) {
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tokens.push_back(static_cast<std::int32_t>((seed >> 8) % static_cast<std::uint32_t>(vocab_size)));
  }
  return tokens;
}

// A few tokens that repeat, so that proposers which look back find drafts.
std::vector<std::int32_t> repeated_tokens(std::int32_t count, std::int32_t vocab_size) {
  const std::vector<std::int32_t> few = some_tokens(5, 11, vocab_size);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < count; ++i) tokens.push_back(few[static_cast<std::size_t>(i) % few.size()]);
  return tokens;
}

std::string show(const TokenInfo& token) {
  return fmt::format("{} (log probability {:.9g})", token.id, token.logprob);
}

bool same_bits(const TokenInfo& a, const TokenInfo& b) {
  return a.id == b.id && std::bit_cast<std::uint32_t>(a.logprob) == std::bit_cast<std::uint32_t>(b.logprob);
}

// Collects the results of requests that run at the same time. Thread-safe.
class Collected {
 public:
  explicit Collected(std::size_t num_open) : num_open_(num_open) {}

  void add(std::vector<TokenInfo>* answer, Delta&& delta) {
    const std::lock_guard lock(mutex_);
    if (answer != nullptr) {
      answer->insert(answer->end(), delta.prompt.begin(), delta.prompt.end());
      answer->insert(answer->end(), delta.tokens.begin(), delta.tokens.end());
    }
    num_tokens_ += delta.tokens.size();
    if (delta.finish == FinishReason::kError && error_.empty()) error_ = delta.error;
    if (delta.finish != FinishReason::kNone) --num_open_;
    changed_.notify_all();
  }
  void wait_for_some() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_open_ == 0 || num_tokens_ >= 12; });
  }
  // Throws the first error of a request.
  void wait_for_all() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return num_open_ == 0; });
    if (!error_.empty()) throw Error(error_);
  }

 private:
  std::mutex mutex_;  // guards all members, and the answers
  std::condition_variable changed_;
  std::size_t num_open_, num_tokens_ = 0;
  std::string error_;
};

}  // namespace

TrialRequests::TrialRequests(const EngineLimits& limits, std::int32_t vocab_size, bool is_small) {
  const std::int32_t room = std::min(limits.max_model_len, limits.num_blocks * limits.block_size);
  const std::int32_t length = std::min(is_small ? 24 : 12, std::max(1, room / 4));
  const auto prompt = [&](std::int32_t wanted) { return std::clamp(wanted, 1, std::max(1, room - length - 1)); };
  const auto request = [&](std::vector<std::int32_t> tokens, float temperature) {
    Request made;
    made.prompt = std::move(tokens);
    made.sampling.temperature = temperature;
    made.sampling.seed = 7 + requests_.size();
    made.sampling.max_tokens = length;
    made.sampling.ignore_eos = true;
    made.logprobs = 0;
    return made;
  };
  // For a small model, longer than one step can take.
  const std::int32_t longest = is_small ? std::min(limits.max_batched_tokens + 100, kMaxPrompt) : 200;
  const std::vector<std::int32_t> common = some_tokens(prompt(kShort), 3, vocab_size);
  requests_.push_back(request(some_tokens(prompt(longest), 1, vocab_size), 0));
  requests_.push_back(request(common, 0.8f));
  std::vector<std::int32_t> longer = common;
  for (const std::int32_t token : some_tokens(9, 4, vocab_size)) longer.push_back(token);
  longer.resize(static_cast<std::size_t>(prompt(static_cast<std::int32_t>(longer.size()))));
  requests_.push_back(request(std::move(longer), 1.0f));
  requests_.back().sampling.n = 2;
  requests_.back().sampling.top_p = 0.9f;
  requests_.push_back(request(repeated_tokens(prompt(kShort), vocab_size), 0));
  requests_.push_back(request(some_tokens(prompt(kShort), 5, vocab_size), 0.5f));
  requests_.back().sampling.frequency_penalty = 0.5f;
  requests_.back().score_from = 1;
  aborted_ = request(some_tokens(prompt(kShort), 6, vocab_size), 0);
}

TrialRequests::Answers TrialRequests::run(Engine& engine, const std::function<void()>& meanwhile) const {
  std::size_t num_choices = 1;
  for (const Request& request : requests_) num_choices += static_cast<std::size_t>(request.sampling.n);
  // Shared, because sinks may run until the engine ends.
  struct Run {
    explicit Run(std::size_t num_choices) : answers(num_choices - 1), collected(num_choices) {}
    Answers answers;
    Collected collected;
  };
  const auto state = std::make_shared<Run>(num_choices);
  const RequestId aborted =
      engine.submit(aborted_, [state](Delta&& delta) { state->collected.add(nullptr, std::move(delta)); });
  std::size_t first = 0;
  for (const Request& request : requests_) {
    engine.submit(request, [state, first](Delta&& delta) {
      state->collected.add(&state->answers[first + static_cast<std::size_t>(delta.choice)], std::move(delta));
    });
    first += static_cast<std::size_t>(request.sampling.n);
  }
  state->collected.wait_for_some();
  engine.abort(aborted);
  if (meanwhile) meanwhile();
  state->collected.wait_for_all();
  return state->answers;
}

std::optional<std::string> TrialRequests::difference(const Answers& expected, const Answers& found) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::vector<TokenInfo>&one = expected[i], &other = found[i];
    for (std::size_t at = 0; at < std::min(one.size(), other.size()); ++at) {
      if (same_bits(one[at], other[at])) continue;
      return fmt::format("choice {} of the trial: its {}th token is {} with them, but {} with the serving parts", i,
                         at + 1, show(other[at]), show(one[at]));
    }
    if (one.size() != other.size()) {
      return fmt::format("choice {} of the trial has {} tokens with them, but {} with the serving parts", i,
                         other.size(), one.size());
    }
  }
  return std::nullopt;
}

std::int32_t TrialRequests::num_blocks(std::int32_t block_size) {
  return (kMaxPrompt + 7 * (kShort + 64)) / block_size + 8;
}

}  // namespace mortise
