// runtime/engine/text_stream.hpp: turns the tokens of one choice into text that may be shown: whole characters, with
// stop strings found and cut off, and nothing let out that could still become one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/params.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

class TextStream {
 public:
  // The text goes on from that of the tokens `before`, the prompt's. `tokenizer` outlives the stream. All that works on
  // text throws Error where the tokenizer's rules cannot be followed (its expressions take too long).
  TextStream(const Tokenizer& tokenizer, const SamplingParams& params, const DecodedPrefix& before);

  // Adds a token and returns the text that became final. After stopped() nothing more comes.
  // A stop string counts when it ends in the text of the min_tokens-th token or later.
  std::string push(std::int32_t token);
  // The rest, when the choice ends for another reason.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string_view fresh, bool last);
  bool find_stop();  // true: cuts held_ before the first one

  IncrementalDecoder decoder_;
  std::vector<std::string> stop_;
  const std::int32_t min_tokens_;
  std::int32_t num_tokens_ = 0;
  std::string held_;            // text that may be the beginning of a stop string
  std::size_t num_exempt_ = 0;  // bytes of held_ in which no stop string may end
  bool stopped_ = false;
};

}  // namespace mortise
