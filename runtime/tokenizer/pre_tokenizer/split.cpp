#include "tokenizer/pre_tokenizer/split.hpp"

#include <string>
#include <utility>

namespace mortise::tokenizer {

SplitBehavior read_split_behavior(const ConfigNode& node) {
  const std::string name = node.as_string();
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  node.fail_expected("Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

SplitPreTokenizer::SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
    : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

void SplitPreTokenizer::apply(PreTokenized& text) const {
  std::vector<PreTokenized::Piece> pieces;
  Splitter splitter(pattern_, behavior_, invert_, *text.time);
  for (const auto& piece : text.pieces) splitter.split(text.view(piece), piece.begin, pieces);
  text.pieces = std::move(pieces);
}

void Splitter::find_parts(std::string_view text) {
  pattern_.find_all(text, time_, matches_);
  parts_.clear();
  std::size_t end = 0;
  for (const Match& match : matches_) {
    if (match.begin > end) parts_.push_back({end, match.begin, invert_});
    parts_.push_back({match.begin, match.end, !invert_});
    end = match.end;
  }
  if (end < text.size()) parts_.push_back({end, text.size(), invert_});
}

// Joins parts in place. Whether two neighbours are joined depends on the parts as they were found, not on joined ones.
void Splitter::join_parts() {
  const auto joins = [this](const Part& left, const Part& right) {
    switch (behavior_) {
      case SplitBehavior::kMergedWithPrevious:
        return right.is_match && !left.is_match;
      case SplitBehavior::kMergedWithNext:
        return left.is_match && !right.is_match;
      case SplitBehavior::kContiguous:
        return left.is_match == right.is_match;
      default:
        return false;
    }
  };
  std::size_t last = 0;
  for (std::size_t i = 1; i < parts_.size(); ++i) {
    const Part part = parts_[i];
    if (joins(parts_[last], part)) {
      parts_[last].end = part.end;
      parts_[last].is_match = part.is_match;
    } else {
      parts_[++last] = part;
    }
  }
  if (!parts_.empty()) parts_.resize(last + 1);
}

void Splitter::split(std::string_view text, std::size_t offset, std::vector<PreTokenized::Piece>& pieces) {
  find_parts(text);
  if (behavior_ != SplitBehavior::kRemoved && behavior_ != SplitBehavior::kIsolated) join_parts();
  for (const Part& part : parts_) {
    const bool removed = behavior_ == SplitBehavior::kRemoved && part.is_match;
    if (!removed && part.begin != part.end) pieces.push_back({offset + part.begin, offset + part.end});
  }
}

}  // namespace mortise::tokenizer
