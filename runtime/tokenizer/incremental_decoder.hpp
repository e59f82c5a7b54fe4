// runtime/tokenizer/incremental_decoder.hpp: decodes tokens as they are generated.
// The texts of all push() and of finish() together are Tokenizer::decode() of all ids, and each of them is valid UTF-8:
// the first bytes of a character wait for the rest, and bytes that turn out invalid become U+FFFD. Time and memory for
// a token do not depend on how many came before.
// A decoder that strips a space from the start of a text does so here too, unless the text goes on from another's
// tokens.
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

// What of the tokens before a text decides how it goes on. Found once, it serves any number of decoders.
struct DecodedPrefix {
  std::vector<std::int32_t> ids;  // the last ones, from one on that is text by itself
  std::string text;               // theirs
};
DecodedPrefix decode_prefix(const Tokenizer& tokenizer, bool skip_special_tokens, std::span<const std::int32_t> ids);

class IncrementalDecoder {
 public:
  // Keeps no pointer to the Tokenizer object itself, only to what it owns: the tokenizer may move, but must live.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  // Goes on where `before` ends: the texts are what decoding `before` and the pushed tokens together adds to decoding
  // `before` alone. Where `before` ends inside a character that the pushed tokens complete, that character is in them.
  // REQUIRES: `before` is of the same tokenizer and skip_special_tokens.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens, const DecodedPrefix& before);
  IncrementalDecoder(IncrementalDecoder&&) noexcept;
  IncrementalDecoder& operator=(IncrementalDecoder&&) noexcept;
  ~IncrementalDecoder();

  // The text that became final with this token; often empty.
  std::string push(std::int32_t id);
  // The rest. REQUIRES: called once, and nothing after it.
  std::string finish();

 private:
  std::string take_text();

  const Tokenizer::Parts* parts_;
  std::unique_ptr<tokenizer::DecodeStream> stream_;
  bool skip_special_tokens_;
  std::string due_;  // text of `before` that the stream still holds back
};

}  // namespace mortise
