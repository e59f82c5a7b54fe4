// runtime/tokenizer/pre_tokenizer.hpp: the second stage: cuts a text into the pieces that the model sees one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/config_node.hpp"

namespace mortise::tokenizer {

// A text and the pieces of it that are left, in order. Pieces are never empty; between them characters may be missing
// (Split with Removed).
struct PreTokenized {
  struct Piece {
    std::size_t begin;
    std::size_t end;
  };
  std::string text;
  std::vector<Piece> pieces;

  explicit PreTokenized(std::string whole) : text(std::move(whole)) {
    if (!text.empty()) pieces.push_back({0, text.size()});
  }
  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: valid UTF-8; leaves valid UTF-8 and pieces that start and end between characters. Throws Error when a
  // regular expression fails on the text.
  virtual void apply(PreTokenized& text) const = 0;
};

// Throws Error for a pre-tokenizer that is malformed or not supported.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ConfigNode& node);

}  // namespace mortise::tokenizer
