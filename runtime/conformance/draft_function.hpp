// runtime/conformance/draft_function.hpp: the draft model of the suite. It is a function of a sequence's tokens, all of
// them, and needs no checkpoint: one wrong token in a sequence's history changes what is drawn from it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "conformance/attention_shape.hpp"

namespace mortise::conformance {

// The draft model has more tokens than the target, as in a checkpoint whose embeddings are padded. The additional
// tokens are no drafts.
inline constexpr std::int32_t kDraftVocabSize = kVocabSize + 64;

// A sequence as the draft model sees it. Invariant: one hash for each token, of all tokens up to it.
class DraftText {
 public:
  void append(std::int32_t token);
  void cut(std::size_t num_tokens);  // keeps the first tokens

  const std::vector<std::int32_t>& tokens() const { return tokens_; }
  std::size_t size() const { return tokens_.size(); }
  // Returns whether the model can run it: it has an embedding for each token, and the text is not too long.
  bool can_run() const;
  // Writes the logits of the next token, [kDraftVocabSize]. Three times in four the likeliest token is the one that
  // followed the last two tokens before, if they stood together before; otherwise any token may be.
  // REQUIRES: size() > 0.
  void write_logits(std::span<float> logits) const;

 private:
  std::vector<std::int32_t> tokens_;
  std::vector<std::uint64_t> hashes_;
};

// How a token is drawn: the fields of one sequence of mortise_runner_step.
struct DraftDraw {
  std::uint64_t key = 0;
  float temperature = 0;
  std::int32_t top_k = 0;
  float top_p = 1, min_p = 0;
};

// Draws `num_choices` tokens from logits [kDraftVocabSize], as docs/numerics.md, "Sampling", says; each without the
// tokens before it. `position` is that of the drawn token. -1: there is no further token.
std::vector<std::int32_t> draw_choices(std::span<const float> logits, const DraftDraw& draw, std::size_t position,
                                       std::size_t num_choices);

}  // namespace mortise::conformance
