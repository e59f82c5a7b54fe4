#include "replay/compare.hpp"

#include <algorithm>
#include <bit>

#include "error.hpp"

namespace mortise {
namespace {

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

// Whether the choice was ended by something outside of the request.
bool ended_early(FinishReason finish) {
  return finish == FinishReason::kAborted || finish == FinishReason::kError;
}

// Compares one choice of two runs and adds the differences to a Comparison. Used by one thread.
class ChoiceComparer {
 public:
  ChoiceComparer(std::size_t choice, const Request& request, const ComparisonNames& names, Comparison& result)
      : choice_(choice), request_(request), names_(names), result_(result) {}

  void compare(const RecordedChoice& recorded, const RecordedChoice& replayed) {
    compare_prompt(recorded, replayed);
    if (!compare_tokens(recorded, replayed)) return;
    const std::size_t num_recorded = recorded.tokens.size(), num_replayed = replayed.tokens.size();
    const bool same = num_recorded == num_replayed && recorded.finish == replayed.finish;
    if (ended_early(recorded.finish) ? num_replayed >= num_recorded : same) return;
    differ(request_.prompt.size() + std::min(num_recorded, num_replayed), "the end",
           both(end_text(recorded), end_text(replayed)));
  }

 private:
  void compare_prompt(const RecordedChoice& recorded, const RecordedChoice& replayed) {
    const std::size_t first = static_cast<std::size_t>(request_.score_from.value_or(0));
    for (std::size_t i = 0; i < std::min(recorded.prompt.size(), replayed.prompt.size()); ++i) {
      const std::string what = "prompt token " + std::to_string(recorded.prompt[i].id);
      compare_logprobs(first + i, what, recorded.prompt[i], replayed.prompt[i]);
    }
    if (recorded.prompt.size() > replayed.prompt.size() ||
        (recorded.prompt.size() < replayed.prompt.size() && !ended_early(recorded.finish))) {
      differ(first + std::min(recorded.prompt.size(), replayed.prompt.size()), "scores of the prompt",
             both(std::to_string(recorded.prompt.size()), std::to_string(replayed.prompt.size())));
    }
  }

  // Returns false if a token differs.
  bool compare_tokens(const RecordedChoice& recorded, const RecordedChoice& replayed) {
    for (std::size_t i = 0; i < std::min(recorded.tokens.size(), replayed.tokens.size()); ++i) {
      const TokenInfo& old_token = recorded.tokens[i];
      const TokenInfo& new_token = replayed.tokens[i];
      const std::size_t position = request_.prompt.size() + i;
      const std::string which = fmt::format("generated token {}", i + 1);
      ++result_.num_tokens;
      if (old_token.id != new_token.id) {
        differ(position, which,
               fmt::format("token {}, log probability {} {}; token {}, log probability {} {}", old_token.id,
                           exact_text(old_token.logprob), names_.before, new_token.id, exact_text(new_token.logprob),
                           names_.after));
        return false;
      }
      compare_logprobs(position, fmt::format("{} ({})", which, old_token.id), old_token, new_token);
    }
    return true;
  }

  void compare_logprobs(std::size_t position, const std::string& what, const TokenInfo& recorded,
                        const TokenInfo& replayed) {
    ++result_.num_logprobs;
    if (!same_bits(recorded.logprob, replayed.logprob)) {
      differ(position, what, "log probability " + both(exact_text(recorded.logprob), exact_text(replayed.logprob)));
    }
    for (std::size_t k = 0; k < recorded.top.size(); ++k) {
      ++result_.num_logprobs;
      const auto& [old_id, old_value] = recorded.top[k];
      const auto [new_id, new_value] = k < replayed.top.size() ? replayed.top[k] : std::pair{-1, 0.0f};
      if (old_id == new_id && same_bits(old_value, new_value)) continue;
      differ(position, what,
             fmt::format("alternative {}: token {}, log probability {} {}; token {}, log probability {} {}", k + 1,
                         old_id, exact_text(old_value), names_.before, new_id, exact_text(new_value), names_.after));
    }
  }

  static std::string end_text(const RecordedChoice& choice) {
    return fmt::format("'{}' after {} tokens{}", to_string(choice.finish), choice.tokens.size(),
                       choice.error.empty() ? "" : " (" + choice.error + ")");
  }

  std::string both(const std::string& recorded, const std::string& replayed) const {
    return fmt::format("{} {}, {} {}", recorded, names_.before, replayed, names_.after);
  }

  void differ(std::size_t position, const std::string& what, const std::string& how) {
    ++result_.num_differences;
    if (result_.first) return;
    result_.first = fmt::format("choice {}, position {}, {}: {}", choice_, position, what, how);
    result_.place = {choice_, position};
  }

  const std::size_t choice_;
  const Request& request_;
  const ComparisonNames& names_;
  Comparison& result_;
};

}  // namespace

Comparison compare(const RecordedRequest& recorded, const RecordedRequest& replayed, const ComparisonNames& names) {
  Comparison result;
  for (std::size_t i = 0; i < recorded.choices.size(); ++i) {
    ChoiceComparer(i, recorded.request, names, result).compare(recorded.choices[i], replayed.choices[i]);
  }
  return result;
}

std::optional<Request> request_to_replay(const RecordedRequest& recorded) {
  Request request = recorded.request;
  request.logprobs = request.logprobs.value_or(0);
  std::size_t longest = 0;
  bool complete = false, scored = false;
  for (const RecordedChoice& choice : recorded.choices) {
    complete = complete || !ended_early(choice.finish);
    scored = scored || !choice.prompt.empty();
    longest = std::max(longest, choice.tokens.size());
  }
  if (!complete && longest == 0 && !scored) return std::nullopt;
  SamplingParams& sampling = request.sampling;
  if (complete || !sampling.choices.empty()) return request;  // guided choices need room for the longest choice
  sampling.max_tokens = std::min(sampling.max_tokens, static_cast<std::int32_t>(longest));
  sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens);
  return request;
}

}  // namespace mortise
