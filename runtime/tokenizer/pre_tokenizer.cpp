#include "tokenizer/pre_tokenizer.hpp"

#include <utility>

#include <fmt/format.h>

#include "tokenizer/byte_alphabet.hpp"
#include "tokenizer/pattern.hpp"
#include "tokenizer/split.hpp"
#include "tokenizer/unicode_sets.hpp"

namespace mortise::tokenizer {
namespace {

// GPT-2's own pattern: what ByteLevel splits by.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// Also Digits, Whitespace and WhitespaceSplit: each is a Split with a fixed pattern.
class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void apply(PreTokenized& text) const override {
    std::vector<PreTokenized::Piece> pieces;
    Splitter splitter(pattern_, behavior_, invert_);
    for (const auto& piece : text.pieces) splitter.split(text.view(piece), piece.begin, pieces);
    text.pieces = std::move(pieces);
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits by GPT-2's pattern unless told not to, and then writes each byte as a character of the byte alphabet.
class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  explicit ByteLevelPreTokenizer(const ConfigNode& node) : add_prefix_space_(node.at("add_prefix_space").as_bool()) {
    node.at("trim_offsets").as_bool();  // offsets are not computed here, so that it has nothing to trim
    if (node.bool_or("use_regex", true)) {
      split_ = std::make_unique<SplitPreTokenizer>(Pattern(Regex(kGpt2Pattern, node.where())), SplitBehavior::kIsolated,
                                                   /*invert=*/false);
    }
  }

  void apply(PreTokenized& text) const override {
    if (add_prefix_space_) prefix_spaces(text);
    if (split_) split_->apply(text);
    std::string characters;
    characters.reserve(text.text.size() * 2);
    for (auto& piece : text.pieces) {
      const std::size_t begin = characters.size();
      append_byte_characters(text.view(piece), characters);
      piece = {begin, characters.size()};
    }
    text.text = std::move(characters);
  }

 private:
  static void prefix_spaces(PreTokenized& text) {
    std::string prefixed;
    prefixed.reserve(text.text.size() + text.pieces.size());
    for (auto& piece : text.pieces) {
      const std::size_t begin = prefixed.size();
      if (!text.view(piece).starts_with(' ')) prefixed += ' ';
      prefixed += text.view(piece);
      piece = {begin, prefixed.size()};
    }
    text.text = std::move(prefixed);
  }

  bool add_prefix_space_;
  std::unique_ptr<const PreTokenizer> split_;
};

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

std::unique_ptr<const PreTokenizer> fixed_split(const ConfigNode& node, const std::string& pcre2_pattern,
                                                SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitPreTokenizer>(Pattern(Regex::from_pcre2_syntax(pcre2_pattern, node.where())), behavior,
                                             invert);
}

std::unique_ptr<const PreTokenizer> make_split(const ConfigNode& node) {
  return std::make_unique<SplitPreTokenizer>(Pattern(node.at("pattern")), read_split_behavior(node.at("behavior")),
                                             node.at("invert").as_bool());
}

}  // namespace

std::unique_ptr<const PreTokenizer> make_pre_tokenizer(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  if (type == "ByteLevel") return std::make_unique<ByteLevelPreTokenizer>(node);
  if (type == "Split") return make_split(node);
  if (type == "Sequence") return std::make_unique<SequencePreTokenizer>(node.at("pretokenizers"));
  if (type == "Digits") {
    const bool individual = node.at("individual_digits").as_bool();
    return fixed_split(node, property_set("N").bracketed(),
                       individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, /*invert=*/false);
  }
  if (type == "Whitespace") {
    const std::string word = rust_word_set().body;
    return fixed_split(node, fmt::format("[{0}]+|[^{0}\\p{{White_Space}}]+", word), SplitBehavior::kRemoved,
                       /*invert=*/true);
  }
  if (type == "WhitespaceSplit") {
    return fixed_split(node, "\\p{White_Space}", SplitBehavior::kRemoved, /*invert=*/false);
  }
  node.fail_unsupported("pre-tokenizer", type, "ByteLevel, Split, Digits, Whitespace, WhitespaceSplit and Sequence");
}

}  // namespace mortise::tokenizer
