// runtime/tokenizer/decoder/decoder.hpp: the last stage: from tokens back to text, token by token.
// A decoder of tokenizer.json is a chain of steps. Each step is a small machine that takes the text of tokens as it
// comes and hands on what is final, so that a stream and a whole decode are the same code: what a machine withholds
// (the first half of a character, a byte that may become part of one, a space that may be stripped) is what later
// tokens can still change, and no more.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/file/config_node.hpp"

namespace mortise::tokenizer {

// One running step. For each token: text() any number of times, then end_token(); after the last one finish().
// A piece of text is valid UTF-8 in whole characters.
class DecodeStep {
 public:
  virtual ~DecodeStep() = default;
  virtual void text(std::string_view piece) = 0;
  virtual void end_token() = 0;
  virtual void finish() = 0;
};

// A step as the file describes it; immutable, shared by all streams.
class Decoder {
 public:
  virtual ~Decoder() = default;
  // Starts a step that hands its text to `next`, which must outlive it.
  virtual std::unique_ptr<DecodeStep> start(DecodeStep& next) const = 0;
};

using DecoderChain = std::vector<std::unique_ptr<const Decoder>>;

// The steps in order, sequences unfolded. A null `node` (no decoder) is one step that puts spaces between tokens.
// Throws Error for a decoder that is malformed or not supported.
DecoderChain make_decoder_chain(const ConfigNode* node);

// A chain at work; collects the text that is final.
class DecodeStream {
 public:
  explicit DecodeStream(const DecoderChain& chain);

  void token(std::string_view text) {
    first_->text(text);
    first_->end_token();
  }
  void finish() { first_->finish(); }
  // The final text since the last call.
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
