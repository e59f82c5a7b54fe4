#include "cli/repl/draft_marks.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

namespace mortise {
namespace {

// Returns black on green, cyan or yellow. These differ clearly in each palette, and do not depend on the terminal's
// background.
std::string_view colour_of(TokenOrigin origin) {
  switch (origin) {
    case TokenOrigin::kAccepted:
      return "\033[30;42m";
    case TokenOrigin::kBonus:
      return "\033[30;46m";
    case TokenOrigin::kRecovered:
      return "\033[30;43m";
    case TokenOrigin::kPlain:
      break;
  }
  return "";
}

constexpr std::string_view kNoColour = "\033[0m";

std::string_view brackets_of(TokenOrigin origin) {
  switch (origin) {
    case TokenOrigin::kAccepted:
      return "[]";
    case TokenOrigin::kBonus:
      return "<>";
    case TokenOrigin::kRecovered:
      return "{}";
    case TokenOrigin::kPlain:
      break;
  }
  return "";
}

// Joins neighbouring pieces of one origin.
std::vector<MarkedText> joined(std::span<const MarkedText> pieces) {
  std::vector<MarkedText> joined;
  for (const MarkedText& piece : pieces) {
    if (joined.empty() || joined.back().origin != piece.origin) joined.push_back({"", piece.origin});
    joined.back().text += piece.text;
  }
  return joined;
}

}  // namespace

DraftMarks::DraftMarks(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> prompt)
    : decoder_(tokenizer, skip_special_tokens, decode_prefix(tokenizer, skip_special_tokens, prompt)) {}

// A step ends with a token of the target itself, unless the answer ends earlier. After an accepted draft that is either
// the bonus token or the replacement of the next draft.
TokenOrigin DraftMarks::origin_of(const TokenInfo& token) {
  const bool is_accepted = token.draft == DraftOutcome::kAccepted;
  const bool after_accepted = std::exchange(after_accepted_, is_accepted);
  if (is_accepted) return TokenOrigin::kAccepted;
  if (token.draft == DraftOutcome::kRecovered) return TokenOrigin::kRecovered;
  return after_accepted ? TokenOrigin::kBonus : TokenOrigin::kPlain;
}

std::vector<MarkedText> DraftMarks::add(const Delta& delta) {
  const std::size_t end = delta.tokens.size() - (delta.stop_token ? 1 : 0);  // an end token has no text
  TokenOrigin origin = TokenOrigin::kPlain;
  for (std::size_t i = 0; i < end; ++i) {
    origin = origin_of(delta.tokens[i]);
    due_.push_back({decoder_.push(delta.tokens[i].id), origin});
  }
  if (delta.finish != FinishReason::kNone) due_.push_back({decoder_.finish(), origin});
  return take(delta.text);
}

std::vector<MarkedText> DraftMarks::take(std::string_view text) {
  std::vector<MarkedText> pieces;
  while (!text.empty() && !due_.empty()) {
    MarkedText& next = due_.front();
    const std::size_t size = std::min(next.text.size(), text.size());
    if (text.substr(0, size) != std::string_view(next.text).substr(0, size)) break;
    if (size > 0) pieces.push_back({std::string(text.substr(0, size)), next.origin});
    text.remove_prefix(size);
    next.text.erase(0, size);
    if (next.text.empty()) due_.pop_front();
  }
  if (!text.empty()) pieces.push_back({std::string(text), TokenOrigin::kPlain});
  return pieces;
}

std::string shaded(std::span<const MarkedText> pieces) {
  std::string out;
  for (const MarkedText& piece : joined(pieces)) {
    const std::string_view colour = colour_of(piece.origin);
    std::string_view text = piece.text;
    if (colour.empty()) {
      out += text;
      continue;
    }
    // Ends colours before a newline, because terminals would fill the next line with the colour.
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      if (end > 0) {
        out += colour;
        out += text.substr(0, end);
        out += kNoColour;
      }
      if (end < text.size()) out += '\n';
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  return out;
}

std::string bracketed(std::span<const MarkedText> pieces) {
  std::string out;
  for (const MarkedText& piece : joined(pieces)) {
    const std::string_view brackets = brackets_of(piece.origin);
    out += brackets.substr(0, 1);
    out += piece.text;
    out += brackets.substr(std::min<std::size_t>(1, brackets.size()));
  }
  return out;
}

}  // namespace mortise
