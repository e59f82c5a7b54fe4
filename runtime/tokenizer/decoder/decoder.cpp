#include "tokenizer/decoder/decoder.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "tokenizer/decoder/decoder_steps.hpp"
#include "tokenizer/pre_tokenizer/piece_rewriters.hpp"
#include "tokenizer/regex/pattern.hpp"

namespace mortise::tokenizer {
namespace {

// A decoder without options.
template <typename Step>
class PlainDecoder final : public Decoder {
 public:
  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override { return std::make_unique<Step>(next); }
};

// Replace: a pattern becomes a fixed text. Immutable.
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

  std::size_t growth() const { return pattern_.growth(content_.size()); }

 private:
  Pattern pattern_;
  std::string content_;
};

// Strip: removes a character at the ends of tokens. Immutable.
class StripDecoder final : public Decoder {
 public:
  explicit StripDecoder(const ConfigNode& node)
      : content_(node.at("content").as_character()),
        start_(node.at("start").as_uint32()),
        stop_(node.at("stop").as_uint32()) {}

  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override {
    return std::make_unique<StripStep>(content_, start_, stop_, next);
  }

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

// Metaspace: its character becomes a space. Immutable.
class MetaspaceDecoder final : public Decoder {
 public:
  explicit MetaspaceDecoder(const ConfigNode& node) : options_(node) {}

  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override {
    return std::make_unique<MetaspaceStep>(options_.replacement, options_.prepend != MetaspaceOptions::Prepend::kNever,
                                           next);
  }

 private:
  MetaspaceOptions options_;
};

// BPEDecoder: the suffix of words becomes a space. Immutable.
class WordSuffixDecoder final : public Decoder {
 public:
  explicit WordSuffixDecoder(std::string suffix) : suffix_(Pattern::of_text(std::move(suffix))) {}

  std::unique_ptr<DecodeStep> start(DecodeStep& next) const override {
    return std::make_unique<WordSuffixStep>(suffix_, next);
  }

 private:
  Pattern suffix_;
};

std::unique_ptr<const Decoder> make_word_suffix(const ConfigNode& suffix) {
  if (suffix.as_string().empty()) suffix.fail_expected("a text that is not empty");
  return std::make_unique<WordSuffixDecoder>(suffix.as_string());
}

// Steps call each other, so a long chain is a deep stack. Published decoders have up to four steps.
constexpr std::size_t kMaxSteps = 64;

// Replacements that feed each other lengthen a text with every step. Published decoders have one or two.
constexpr std::size_t kMaxTextGrowth = 4096;

void check_growth(const ConfigNode& node, std::size_t growth, std::size_t& total) {
  total *= std::min(growth, kMaxTextGrowth + 1);
  if (total > kMaxTextGrowth) {
    node.fail_expected(fmt::format("replacements that make a text at most {} times as long together", kMaxTextGrowth));
  }
}

void append_decoders(const ConfigNode& node, DecoderChain& chain, std::size_t& growth) {
  const std::string type = node.at("type").as_string();
  if (chain.size() == kMaxSteps) node.fail_expected(fmt::format("at most {} decoders in all", kMaxSteps));
  if (type == "ByteLevel") {
    chain.push_back(std::make_unique<PlainDecoder<ByteLevelStep>>());
  } else if (type == "ByteFallback") {
    chain.push_back(std::make_unique<PlainDecoder<ByteFallbackStep>>());
  } else if (type == "Fuse") {
    chain.push_back(std::make_unique<PlainDecoder<FuseStep>>());
  } else if (type == "Replace") {
    auto decoder = std::make_unique<ReplaceDecoder>(node);
    check_growth(node, decoder->growth(), growth);
    chain.push_back(std::move(decoder));
  } else if (type == "Strip") {
    chain.push_back(std::make_unique<StripDecoder>(node));
  } else if (type == "Metaspace") {
    chain.push_back(std::make_unique<MetaspaceDecoder>(node));
  } else if (type == "BPEDecoder") {
    chain.push_back(make_word_suffix(node.at("suffix")));
  } else if (type == "Sequence") {
    for (const ConfigNode& part : node.at("decoders").elements()) append_decoders(part, chain, growth);
  } else {
    node.fail_unsupported("decoder", type,
                          "ByteLevel, Metaspace, ByteFallback, BPEDecoder, Fuse, Replace, Strip and Sequence");
  }
}

}  // namespace

DecoderChain make_decoder_chain(const ConfigNode* node) {
  DecoderChain chain;
  if (node) {
    std::size_t growth = 1;
    append_decoders(*node, chain, growth);
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
