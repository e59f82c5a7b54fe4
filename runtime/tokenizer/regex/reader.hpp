// runtime/tokenizer/regex/reader.hpp: reads a pattern in Oniguruma's syntax: the constructs that are the same inside
// and outside of sets.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tokenizer/regex/unicode_sets.hpp"

namespace mortise::tokenizer {

// A position in a pattern. Used by one thread. Invariant: position_ is the start of a character, or the end.
class RegexReader {
 public:
  explicit RegexReader(std::string_view pattern) : in_(pattern) {}

  bool at_end(std::size_t ahead = 0) const { return position_ + ahead >= in_.size(); }
  char peek(std::size_t ahead = 0) const { return at_end(ahead) ? '\0' : in_[position_ + ahead]; }
  bool next_is(std::string_view text) const { return in_.substr(position_).starts_with(text); }
  std::size_t position() const { return position_; }
  void move_to(std::size_t position) { position_ = position; }
  void skip(std::size_t count) { position_ += count; }
  // The offset of `text` at or after the position; npos if there is none.
  std::size_t find(std::string_view text) const { return in_.find(text, position_); }

  // Takes `count` bytes, or one whole character.
  std::string_view take(std::size_t count);
  std::string_view take_character();

  // Takes \s, \P{L} and the like. Otherwise takes nothing and returns false.
  bool take_class(CharacterSet& set);
  // The same inside of a set, where Oniguruma's \w has six characters fewer.
  bool take_class_in_set(CharacterSet& set);
  // Takes an escape for a single character, and appends PCRE2's spelling of it.
  void take_literal_escape(std::string& out);

  // Throws Error: "<what> at offset <position> of the regular expression is not supported".
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  void take_hexadecimal_escape(std::string& out);
  std::string hexadecimal_digits(std::size_t begin, std::size_t count) const;

  std::string_view in_;
  std::size_t position_ = 0;
};

}  // namespace mortise::tokenizer
