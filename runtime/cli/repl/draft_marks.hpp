// runtime/cli/repl/draft_marks.hpp: which parts of an answer's text were drafted, for /show drafts.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "delivery/delta.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// How a token came.
enum class TokenOrigin {
  kPlain,     // of the target, in a step that had no draft for its place
  kAccepted,  // drafted, and the target drew the same
  kReplaced,  // of the target, where another token had been drafted: the draft was rejected
  kBonus,     // of the target, behind the last draft of a step that accepted all of them
};

struct MarkedText {
  std::string text;
  TokenOrigin origin = TokenOrigin::kPlain;

  bool operator==(const MarkedText&) const = default;
};

// Cuts the text of one answer into pieces by the origin of their tokens, while the text comes. A character that several
// tokens make has the origin of the last one.
class DraftMarks {
 public:
  // For an answer to this prompt. `tokenizer` outlives it.
  DraftMarks(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> prompt);

  // The pieces of the delta's text: together they are that text. REQUIRES: deltas of one choice, in order.
  std::vector<MarkedText> add(const Delta& delta);

 private:
  TokenOrigin origin_of(const TokenInfo& token);
  std::vector<MarkedText> take(std::string_view text);

  IncrementalDecoder decoder_;
  std::deque<MarkedText> due_;  // of tokens that came, not in a delta's text yet: it may be part of a stop string
  bool after_accepted_ = false;
};

// Pieces as a terminal shows them, with control sequences for colours: dark letters on a ground of the origin's colour,
// so that they can be read whatever the terminal's own ground is.
std::string shaded(std::span<const MarkedText> pieces);
// Pieces with brackets around them, where there are no colours: [accepted] <bonus> {in place of a rejected draft}.
std::string bracketed(std::span<const MarkedText> pieces);

}  // namespace mortise
