// runtime/engine/text_stream.hpp: turns the tokens of one choice into text that may be shown: whole characters, with
// stop strings found and cut off, and nothing let out that could still become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

class TextStream {
 public:
  // `tokenizer` outlives the stream.
  TextStream(const Tokenizer& tokenizer, std::vector<std::string> stop);

  // Adds a token and returns the text that became final. After stopped() nothing more comes.
  std::string push(std::int32_t token);
  // The rest, when the choice ends for another reason.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string_view fresh, bool last);

  IncrementalDecoder decoder_;
  std::vector<std::string> stop_;
  std::string held_;  // text that may be the beginning of a stop string
  bool stopped_ = false;
};

}  // namespace mortise
