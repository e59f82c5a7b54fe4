// runtime/sampling/choices.hpp: the `choices` of a request as token sequences, checked and joined to a trie.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sampling/choice_trie.hpp"
#include "sampling/params.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// What the choices are held against. `end_tokens`, ascending: all that end the request.
struct ChoiceContext {
  const Tokenizer& tokenizer;
  const DecodedPrefix& before;               // of the prompt
  std::span<const std::int32_t> end_tokens;  // ids of the vocabulary
  std::int32_t vocab_size = 0;               // of the model's head
  std::int32_t max_tokens = 0;               // that may be generated
};

struct ChoiceGuide {
  std::vector<std::vector<std::int32_t>> tokens;  // of each choice, in their order
  ChoiceTrie trie;
};

// Ids are taken as they are. A text's tokens are those that it has as the end of the prompt's last text and itself;
// where both grow together (the prompt's tokens cannot be taken back), or that is not its text behind the prompt, those
// that it has alone. Either way the text behind the prompt's is the choice to the byte. Throws an Error that names the
// first choice which cannot be generated, and why: every choice is possible, or the request is refused, because leaving
// one out in silence would answer another question. REQUIRES: validate(params) passed, and there are choices.
ChoiceGuide make_choice_guide(const SamplingParams& params, const ChoiceContext& context);

}  // namespace mortise
