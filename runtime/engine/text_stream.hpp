// runtime/engine/text_stream.hpp: turns the tokens of one choice into text that may be shown: whole characters only,
// cut off before a stop string. Text that may still become a stop string is withheld. Engine's thread only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sampling/params.hpp"
#include "tokenizer/incremental_decoder.hpp"
#include "tokenizer/tokenizer.hpp"

namespace mortise {

// The text of one choice. Invariant: text that push() returned never changes, whatever tokens follow. Engine's thread
// only.
class TextStream {
 public:
  // The text continues that of the prompt, `before`. `tokenizer` outlives the stream. push() and finish() throw an
  // Error if the tokenizer's rules cannot be followed (its expressions take too long).
  TextStream(const Tokenizer& tokenizer, const SamplingParams& params, const DecodedPrefix& before);

  // Adds a token and returns the text that became final. Returns nothing after stopped().
  // A stop string counts when it ends in the text of the min_tokens-th token or later.
  std::string push(std::int32_t token);
  // Returns the withheld text, when the choice ends for another reason.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string release(std::string fresh, bool last);
  bool find_stop();  // returns true if held_ was cut before the first stop string

  IncrementalDecoder decoder_;
  std::vector<std::string> stop_;
  const std::int32_t min_tokens_;
  std::int32_t num_tokens_ = 0;
  std::string held_;            // may be the beginning of a stop string
  std::size_t num_exempt_ = 0;  // bytes of held_ in which no stop string may end
  bool stopped_ = false;
};

}  // namespace mortise
