// runtime/sampling/params.hpp: how a request wants its tokens picked, and when it ends. Names and meaning are those of
// OpenAI's and vLLM's APIs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mortise {

inline constexpr std::int32_t kMaxChoices = 128;          // as OpenAI: a larger n is a mistake, not a wish
inline constexpr std::size_t kMaxStops = 64;              // each is looked for behind each token; OpenAI takes 4
inline constexpr std::size_t kMaxListedChoices = 100000;  // of `choices`: each is tokenised when the request comes
// Below this the temperature is taken for 0, as by vLLM: logits divided by it would overflow to equal numbers.
inline constexpr float kLeastTemperature = 1e-5f;

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
  std::vector<std::string> choices;  // the text is one of these to the byte, whatever ignore_eos says; none: it is free
  bool skip_special_tokens = true;   // leave them out of the text
};

// Throws an Error that names the first parameter out of its range, its value and the range.
// `vocab_size` bounds the token ids of logit_bias and stop_token_ids.
void validate(const SamplingParams& params, std::int32_t vocab_size);

}  // namespace mortise
