// runtime/tokenizer/incremental_decoder.hpp: decodes tokens as they are generated. The texts of all calls of push() and
// of finish() together equal Tokenizer::decode() of all ids. Each text is valid UTF-8: the first bytes of a character
// wait for the rest, and invalid bytes become U+FFFD. Time and memory for a token do not depend on the number of
// earlier tokens. A decoder that strips a space from the start of a text does so here, too, unless the text continues
// the tokens of another text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tokenizer/tokenizer.hpp"

namespace mortise {

namespace tokenizer {
class DecodeStream;
}

// The part of a text's tokens that determines how the following tokens are decoded. Computed once, it serves any number
// of decoders.
struct DecodedPrefix {
  std::vector<std::int32_t> ids;  // the last tokens, from one on that is text by itself
  std::string text;               // the text of these ids
};
DecodedPrefix decode_prefix(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> ids);

// Decodes one sequence of tokens. Used by one thread. Invariant: returned text never changes.
class IncrementalDecoder {
 public:
  // Keeps no pointer to the Tokenizer object, only to the data that it owns: the tokenizer may be moved, but must not
  // be destroyed.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  // Continues after `before`: the texts are the difference between decoding `before` with the pushed tokens and
  // decoding `before` alone. A character that begins in `before` and is completed by pushed tokens belongs to the
  // texts.
  // REQUIRES: `before` is from the same tokenizer and skip_special_tokens.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens, const DecodedPrefix& before);
  IncrementalDecoder(IncrementalDecoder&&) noexcept;
  IncrementalDecoder& operator=(IncrementalDecoder&&) noexcept;
  ~IncrementalDecoder();

  // The text that has become final with this token; often empty.
  std::string push(std::int32_t id);
  // The rest of the text. Call it once, at the end.
  std::string finish();

 private:
  std::string take_text();

  const Tokenizer::Parts* parts_;
  std::unique_ptr<tokenizer::DecodeStream> stream_;
  bool skip_special_tokens_;
  std::string due_;  // text of `before` that the decoder still withholds
};

}  // namespace mortise
