// runtime/sampling/choices.hpp: tokenises and checks the `choices` of a request, and builds their trie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/choice_trie.hpp"
#include "sampling/params.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// The request that the choices belong to. `end_tokens`, in ascending order, are all tokens that end it.
struct ChoiceContext {
  const Tokenizer& tokenizer;
  const DecodedPrefix& before;               // decoder state at the end of the prompt
  std::span<const std::int32_t> end_tokens;  // ids of the vocabulary
  std::int32_t vocab_size = 0;               // of the model's head
  std::int32_t max_tokens = 0;               // the most tokens that may be generated
};

struct ChoiceGuide {
  std::vector<std::vector<std::int32_t>> tokens;  // of each choice, in the order of the request
  ChoiceTrie trie;
};

// Token ids are used unchanged. A text is tokenised as a continuation of the prompt's last text. If a token would span
// both, which is impossible because the prompt's tokens are fixed, or if the result is not the text after the prompt,
// the text is tokenised alone. Either way the text that is generated after the prompt is the choice, byte by byte.
// Throws an Error that names the first choice that cannot be generated, and the reason: leaving a choice out silently
// would answer another question.
// REQUIRES: validate(params) passed, and there are choices.
ChoiceGuide make_choice_guide(const SamplingParams& params, const ChoiceContext& context);

}  // namespace mortise
