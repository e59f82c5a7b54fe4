// runtime/tokenizer/decoder/decoder.hpp: the last stage: turns tokens back into text, token by token. A decoder of
// tokenizer.json is a chain of steps. Each step takes the text of tokens as it comes, and passes on the text that is
// final, so the same code serves streams and whole texts. A step withholds only text that later tokens can change: the
// first bytes of a character, a byte that may belong to a character, a space that may be stripped.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/file/config_node.hpp"

namespace mortise::tokenizer {

// A running step. For each token: text() any number of times, then end_token(). After the last token: finish(). Each
// text is valid UTF-8. Used by one thread. Invariant: text that was passed on never changes.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void text(std::string_view piece) = 0;
  virtual void end_token() = 0;
  virtual void finish() = 0;
};

// A step as the file defines it. Immutable, and shared by all streams. Any thread may start steps.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Starts a step that passes its text to `next`, which must outlive it.
  virtual std::unique_ptr<DecodeStep> start(DecodeStep& next) const = 0;
};

using DecoderChain = std::vector<std::unique_ptr<const Decoder>>;

// The steps in order, with nested sequences unfolded. A null `node` (the file has no decoder) gives one step that puts
// spaces between tokens. Throws an Error for a malformed or unsupported decoder.
DecoderChain make_decoder_chain(const ConfigNode* node);

// A running chain; collects the final text. Used by one thread. Invariant: the steps run in the chain's order.
class DecodeStream {
 public:
  explicit DecodeStream(const DecoderChain& chain);

  void token(std::string_view text) {
    first_->text(text);
    first_->end_token();
  }
  void finish() { first_->finish(); }
  // The text that has become final since the last call.
  std::string take_text() { return std::exchange(sink_.collected, {}); }

 private:
  struct Sink final : DecodeStep {
    void text(std::string_view piece) override { collected += piece; }
    void end_token() override {}
    void finish() override {}
    std::string collected;
  };

  Sink sink_;
  std::vector<std::unique_ptr<DecodeStep>> steps_;
  DecodeStep* first_;
};

}  // namespace mortise::tokenizer
