#include "tokenizer/decoder.hpp"

#include <cstddef>
#include <utility>

#include "tokenizer/decoder_steps.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/utf8.hpp"

namespace mortise::tokenizer {
namespace {

// A decoder without options.
template <typename Step>
class PlainDecoder final : public Decoder {
 public:
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<Step>(next); }
};

class ReplaceDecoder final : public Decoder {
 public:
  explicit ReplaceDecoder(const ConfigNode& node)
      : pattern_(node.at("pattern")), content_(node.at("content").as_string()) {}

  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override {
    if (const std::string* wanted = pattern_.literal()) {
      return std::make_unique<ReplaceTextStep>(*wanted, content_, next);
    }
    return std::make_unique<ReplaceRegexStep>(pattern_, content_, next);
  }

 private:
  Pattern pattern_;
  std::string content_;
};

class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const ConfigNode& node)
      : content_(node.at("content").as_string()),
        start_(node.at("start").as_uint32()),
        stop_(node.at("stop").as_uint32()) {
    if (content_.empty() || character_length(content_[0]) != content_.size()) {
      node.at("content").fail_expected("one character");
    }
  }

  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override {
    return std::make_unique<StripStep>(content_, start_, stop_, next);
  }

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

void append_decoders(const ConfigNode& node, DecoderChain& chain) {
  const std::string type = node.at("type").as_string();
  if (type == "ByteLevel") {
    chain.push_back(std::make_unique<PlainDecoder<ByteLevelStep>>());
  } else if (type == "ByteFallback") {
    chain.push_back(std::make_unique<PlainDecoder<ByteFallbackStep>>());
  } else if (type == "Fuse") {
    chain.push_back(std::make_unique<PlainDecoder<FuseStep>>());
  } else if (type == "Replace") {
    chain.push_back(std::make_unique<ReplaceDecoder>(node));
  } else if (type == "Strip") {
    chain.push_back(std::make_unique<StripDecoder>(node));
  } else if (type == "Sequence") {
    for (const ConfigNode& part : node.at("decoders").elements()) append_decoders(part, chain);
  } else {
    node.fail_unsupported("decoder", type, "ByteLevel, ByteFallback, Fuse, Replace, Strip and Sequence");
  }
}

}  // namespace

DecoderChain make_decoder_chain(const ConfigNode* node) {
  DecoderChain chain;
  if (node) {
    append_decoders(*node, chain);
  } else {
    chain.push_back(std::make_unique<PlainDecoder<JoinStep>>());
  }
  return chain;
}

DecodeStream::DecodeStream(const DecoderChain& chain) : first_(&sink_) {
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    steps_.push_back((*it)->start(*first_));
    first_ = steps_.back().get();
  }
}

}  // namespace mortise::tokenizer
