// runtime/cli/repl/draft_marks.hpp: marks the drafted parts of an answer's text, for /show drafts.
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

// The origin of a token.
enum class TokenOrigin {
  kPlain,      // from the target, in a step that had no draft for its position
  kAccepted,   // drafted, and the target drew the same token
  kRecovered,  // from the target, where another token was drafted and rejected
  kBonus,      // from the target, after the last draft of a step that accepted all drafts
};

struct MarkedText {
  std::string text;
  TokenOrigin origin = TokenOrigin::kPlain;

  bool operator==(const MarkedText&) const = default;
};

// Divides the text of one answer into pieces by the origin of their tokens, as the text comes. A character that several
// tokens make has the origin of the last one. Used by one thread. Invariant: the returned pieces together are the
// deltas' text.
class DraftMarks {
 public:
  // `prompt`: the prompt of the answer. `tokenizer` outlives this object.
  DraftMarks(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> prompt);

  // Returns the pieces of the delta's text, in order and complete.
  // REQUIRES: all deltas are of one choice, in order.
  std::vector<MarkedText> add(const Delta& delta);

 private:
  TokenOrigin origin_of(const TokenInfo& token);
  std::vector<MarkedText> take(std::string_view text);

  IncrementalDecoder decoder_;
  std::deque<MarkedText> due_;  // tokens whose text is not in a delta yet, because it may be part of a stop string
  bool after_accepted_ = false;
};

// Returns the pieces with control sequences for colours: dark letters on a background of the origin's colour, which are
// readable on any terminal.
std::string shaded(std::span<const MarkedText> pieces);
// Returns the pieces with brackets, for output without colours: [accepted] <bonus> {in place of a rejected draft}.
std::string bracketed(std::span<const MarkedText> pieces);

}  // namespace mortise
