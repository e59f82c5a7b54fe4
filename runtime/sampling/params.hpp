// runtime/sampling/params.hpp: how the tokens of a request are drawn, and when it ends. Names and meanings are those of
// OpenAI's and vLLM's APIs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace mortise {

inline constexpr std::int32_t kMaxChoices = 128;  // OpenAI's limit; a larger n is probably a mistake
// Strings or ids, since each token is compared with all of them; OpenAI allows 4.
inline constexpr std::size_t kMaxStops = 1024;
// Smaller temperatures count as 0, as in vLLM: dividing logits by them would overflow.
inline constexpr float kMinTemperature = 1e-5f;

// A text or the token ids that a guided request may generate.
using GuidedChoice = std::variant<std::string, std::vector<std::int32_t>>;

struct SamplingParams {
  float temperature = 1.0f;  // 0: greedy
  float top_p = 1.0f;        // 1: off
  std::int32_t top_k = 0;    // 0 or -1: off
  float min_p = 0.0f;        // 0: off
  float repetition_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  std::map<std::int32_t, float> logit_bias;
  std::optional<std::uint64_t> seed;  // nullopt: the engine draws one and returns it
  std::int32_t n = 1;                 // choices
  std::int32_t max_tokens = 16;       // 0 generates nothing, which is useful only with prompt log probabilities
  std::int32_t min_tokens = 0;        // no end token before this many tokens
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  // The request generates exactly one of these, even with ignore_eos: the text byte by byte, or the ids. Empty: the
  // output is free.
  std::vector<GuidedChoice> choices;
  bool skip_special_tokens = true;  // leave them out of the text
};

std::size_t num_bytes(const GuidedChoice& choice);  // size of its text or ids; 0: it is empty

// Throws an Error that names the first parameter that is out of range, its value and the range.
// `vocab_size` bounds the token ids of logit_bias and stop_token_ids.
void validate(const SamplingParams& params, std::int32_t vocab_size);

}  // namespace mortise
