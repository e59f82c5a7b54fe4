// runtime/tokenizer/pre_tokenizer/pre_tokenizer.hpp: the second stage: cuts a text into the pieces that the model sees
// one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/normalizer/working_text.hpp"

namespace mortise::tokenizer {

// A text and the pieces of it that are left, in order. Pieces are never empty; between them characters may be missing
// (Split with Removed). `origin_end` is WorkingText's.
struct PreTokenized {
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };
  std::string text;
  std::vector<Piece> pieces;
  std::size_t origin_end;
  GrowthLimit growth;
  const TimeLimit* time;

  // `whole` is a part of `from`, of which `origin_end` bytes come from the input's first character.
  PreTokenized(std::string_view whole, std::size_t origin_end, const WorkingText& from)
      : text(whole), origin_end(origin_end), growth(from.growth), time(from.time) {
    if (!text.empty()) pieces.push_back({0, text.size()});
  }
  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: valid UTF-8; leaves valid UTF-8 and pieces that start and end between characters. Throws Error when the
  // text grows without measure or a regular expression fails on it.
  virtual void apply(PreTokenized& text) const = 0;
};

// Throws Error for a pre-tokenizer that is malformed or not supported.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ConfigNode& node);

}  // namespace mortise::tokenizer
