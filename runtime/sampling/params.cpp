#include "sampling/params.hpp"

#include <cmath>

#include "error.hpp"

namespace mortise {
namespace {

// Limits the text that is withheld, which may be as long as the longest stop string. (Choices have no such limit: they
// are tokenised when the request arrives.)
constexpr std::size_t kMaxStopBytes = 16384;
constexpr std::size_t kMaxGuidedChoices = 65536;
constexpr std::size_t kMaxGuidedChoiceBytes = std::size_t{4} << 20;

void check_texts(const char* name, const std::vector<std::string>& texts, std::size_t max_texts,
                 std::size_t max_bytes) {
  if (texts.size() > max_texts) fail("{} has {} texts; at most {} are allowed", name, texts.size(), max_texts);
  std::size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  if (bytes > max_bytes) fail("{} has {} bytes of text; at most {} are allowed", name, bytes, max_bytes);
}

void check_choices(const std::vector<GuidedChoice>& choices) {
  if (choices.size() > kMaxGuidedChoices) {
    fail("choices has {} entries; at most {} are allowed", choices.size(), kMaxGuidedChoices);
  }
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (num_bytes(choices[i]) == 0) fail("choices[{}] is empty; leave it out", i);
    bytes += num_bytes(choices[i]);
  }
  if (bytes > kMaxGuidedChoiceBytes) {
    fail("choices has {} bytes of texts and token ids; at most {} are allowed", bytes, kMaxGuidedChoiceBytes);
  }
}

template <typename T>
void check_range(const char* name, T value, int low, int high) {
  if (!(value >= static_cast<T>(low) && value <= static_cast<T>(high))) {
    fail("{} is {}; it must be from {} to {}", name, value, low, high);
  }
}

void check_token(const char* name, std::int32_t id, std::int32_t vocab_size) {
  if (id < 0 || id >= vocab_size) {
    fail("{}: token id {} is not in the vocabulary; ids are from 0 to {}", name, id, vocab_size - 1);
  }
}

}  // namespace

void validate(const SamplingParams& params, std::int32_t vocab_size) {
  check_range("temperature", params.temperature, 0, 100);
  if (!(params.top_p > 0 && params.top_p <= 1)) fail("top_p is {}; it must be above 0 and at most 1", params.top_p);
  if (params.top_k < -1) fail("top_k is {}; it must be at least 1, or 0 or -1 for off", params.top_k);
  check_range("min_p", params.min_p, 0, 1);
  if (!(params.repetition_penalty > 0 && std::isfinite(params.repetition_penalty))) {
    fail("repetition_penalty is {}; it must be above 0", params.repetition_penalty);
  }
  check_range("frequency_penalty", params.frequency_penalty, -2, 2);
  check_range("presence_penalty", params.presence_penalty, -2, 2);
  check_range("n", params.n, 1, kMaxChoices);
  if (params.max_tokens < 0) fail("max_tokens is {}; it must be at least 0", params.max_tokens);
  if (params.min_tokens < 0 || params.min_tokens > params.max_tokens) {
    fail("min_tokens is {}; it must be from 0 to max_tokens ({})", params.min_tokens, params.max_tokens);
  }
  for (const auto& [id, bias] : params.logit_bias) {
    check_token("logit_bias", id, vocab_size);
    if (!(bias >= -100 && bias <= 100)) fail("logit_bias of token {} is {}; it must be from -100 to 100", id, bias);
  }
  if (params.stop_token_ids.size() > kMaxStops) {
    fail("stop_token_ids has {} ids; at most {} are allowed", params.stop_token_ids.size(), kMaxStops);
  }
  for (std::int32_t id : params.stop_token_ids) check_token("stop_token_ids", id, vocab_size);
  check_texts("stop", params.stop, kMaxStops, kMaxStopBytes);
  for (const std::string& stop : params.stop) {
    if (stop.empty()) fail("stop has an empty string; leave it out");
  }
  check_choices(params.choices);
}

std::size_t num_bytes(const GuidedChoice& choice) {
  const auto* text = std::get_if<std::string>(&choice);
  return text != nullptr ? text->size() : std::get<1>(choice).size() * sizeof(std::int32_t);
}

}  // namespace mortise
