#include "tokenizer/pre_tokenizer/pre_tokenizer.hpp"

#include <utility>

#include <fmt/format.h>

#include "tokenizer/characters/character_sets.hpp"
#include "tokenizer/characters/utf8.hpp"
#include "tokenizer/pre_tokenizer/piece_rewriters.hpp"
#include "tokenizer/pre_tokenizer/split.hpp"
#include "tokenizer/regex/pattern.hpp"
#include "tokenizer/regex/unicode_sets.hpp"

namespace mortise::tokenizer {
namespace {

// Sequence: applies pre-tokenizers one after the other. Immutable.
class SequencePreTokenizer final : public PreTokenizer {
 public:
  explicit SequencePreTokenizer(const ConfigNode& list) {
    for (const ConfigNode& node : list.elements()) parts_.push_back(make_pre_tokenizer(node));
  }
  void apply(PreTokenized& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const PreTokenizer>> parts_;
};

std::unique_ptr<const PreTokenizer> split_by(Pattern pattern, SplitBehavior behavior, bool invert = false) {
  return std::make_unique<SplitPreTokenizer>(std::move(pattern), behavior, invert);
}

std::unique_ptr<const PreTokenizer> make_digits(const ConfigNode& node) {
  const bool individual = node.at("individual_digits").as_bool();
  return split_by(Pattern(Regex::from_pcre2_syntax(property_set("N").bracketed(), node.where())),
                  individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
}

std::unique_ptr<const PreTokenizer> make_whitespace(const ConfigNode& node) {
  const std::string word = rust_word_set().body;
  const std::string pattern = fmt::format("[{0}]+|[^{0}\\p{{White_Space}}]+", word);
  return split_by(Pattern(Regex::from_pcre2_syntax(pattern, node.where())), SplitBehavior::kRemoved, /*invert=*/true);
}

std::unique_ptr<const PreTokenizer> make_punctuation(const ConfigNode& node) {
  const auto behavior = node.find("behavior");
  return split_by(Pattern(is_punctuation), behavior ? read_split_behavior(*behavior) : SplitBehavior::kIsolated);
}

std::unique_ptr<const PreTokenizer> make_split(const ConfigNode& node) {
  return split_by(Pattern(node.at("pattern")), read_split_behavior(node.at("behavior")), node.at("invert").as_bool());
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  if (type == "ByteLevel") return std::make_unique<ByteLevelPreTokenizer>(node);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(node);
  if (type == "Split") return make_split(node);
  if (type == "Digits") return make_digits(node);
  if (type == "Punctuation") return make_punctuation(node);
  if (type == "Whitespace") return make_whitespace(node);
  if (type == "WhitespaceSplit") return split_by(Pattern(is_white_space), SplitBehavior::kRemoved);
  if (type == "CharDelimiterSplit") {
    return split_by(Pattern::of_text(node.at("delimiter").as_character()), SplitBehavior::kRemoved);
  }
  if (type == "Sequence") return std::make_unique<SequencePreTokenizer>(node.at("pretokenizers"));
  node.fail_unsupported("pre-tokenizer", type,
                        "ByteLevel, Metaspace, Split, Digits, Punctuation, Whitespace, WhitespaceSplit, "
                        "CharDelimiterSplit and Sequence");
}

}  // namespace mortise::tokenizer
