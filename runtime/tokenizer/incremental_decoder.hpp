// runtime/tokenizer/incremental_decoder.hpp: decodes tokens as they are generated.
// The texts of all push() and of finish() together are Tokenizer::decode() of all ids, and each of them is valid UTF-8:
// the first bytes of a character wait for the rest, and bytes that turn out invalid become U+FFFD. Time and memory for
// a token do not depend on how many came before.
// A decoder that strips a space from the start of a text does so here too. To continue a text instead, push its last
// tokens first and drop what they return.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tokenizer/tokenizer.hpp"

namespace mortise {

namespace tokenizer {
class DecodeStream;
}

class IncrementalDecoder {
 public:
  // Keeps no pointer to the Tokenizer object itself, only to what it owns: the tokenizer may move, but must live.
  IncrementalDecoder(const Tokenizer& tokenizer, bool skip_special_tokens);
  IncrementalDecoder(IncrementalDecoder&&) noexcept;
  IncrementalDecoder& operator=(IncrementalDecoder&&) noexcept;
  ~IncrementalDecoder();

  // The text that became final with this token; often empty.
  std::string push(std::int32_t id);
  // The rest. REQUIRES: called once, and nothing after it.
  std::string finish();

 private:
  const Tokenizer::Parts* parts_;
  std::unique_ptr<tokenizer::DecodeStream> stream_;
  bool skip_special_tokens_;
};

}  // namespace mortise
