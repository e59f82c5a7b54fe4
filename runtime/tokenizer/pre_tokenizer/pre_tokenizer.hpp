// runtime/tokenizer/pre_tokenizer/pre_tokenizer.hpp: the second stage: splits a text into pieces, which the model
// encodes one by one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/normalizer/working_text.hpp"

namespace mortise::tokenizer {

// A text and its pieces, in order. Pieces are never empty, and there may be gaps between them (Split with Removed).
// `origin_end` is that of WorkingText. Used by one thread.
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

  // `whole` is a part of `from`; its first `origin_end` bytes come from the input's first character.
  PreTokenized(std::string_view whole, std::size_t origin_end, const WorkingText& from)
      : text(whole), origin_end(origin_end), growth(from.growth), time(from.time) {
    if (!text.empty()) pieces.push_back({0, text.size()});
  }
  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

// A pre-tokenizer of tokenizer.json. Immutable. Any thread may use it.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // Throws an Error if the text grows too much, or if a regular expression fails on it. Thread-safe.
  // REQUIRES: valid UTF-8. The result is valid UTF-8, and pieces start and end between characters.
  virtual void apply(PreTokenized& text) const = 0;
};

// Throws an Error for a malformed or unsupported pre-tokenizer.
std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ConfigNode& node);

}  // namespace mortise::tokenizer
