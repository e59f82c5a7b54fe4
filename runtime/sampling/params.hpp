// runtime/sampling/params.hpp: how a request wants its tokens picked, and when it ends. Names and meaning are those of
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

inline constexpr std::int32_t kMaxChoices = 128;  // as OpenAI: a larger n is a mistake, not a wish
inline constexpr std::size_t kMaxStops = 1024;    // strings, ids: each token is compared with all; OpenAI takes 4
// Below this the temperature is taken for 0, as by vLLM: logits divided by it would overflow to equal numbers.
inline constexpr float kLeastTemperature = 1e-5f;

// What a guided request may generate: a text, or token ids.
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
  std::optional<std::uint64_t> seed;  // none: the engine draws one and returns it
  std::int32_t n = 1;                 // choices
  std::int32_t max_tokens = 16;       // 0: none, which only makes sense with prompt log probabilities
  std::int32_t min_tokens = 0;        // no end token before that many
  bool ignore_eos = false;
  std::vector<std::string> stop;
  std::vector<std::int32_t> stop_token_ids;
  // What is generated is one of these, whatever ignore_eos says: the text to the byte, the ids one by one. None: it is
  // free.
  std::vector<GuidedChoice> choices;
  bool skip_special_tokens = true;  // leave them out of the text
};

std::size_t num_bytes(const GuidedChoice& choice);  // of its text, or its ids; 0: it is empty

// Throws an Error that names the first parameter out of its range, its value and the range.
// `vocab_size` bounds the token ids of logit_bias and stop_token_ids.
void validate(const SamplingParams& params, std::int32_t vocab_size);

}  // namespace mortise
