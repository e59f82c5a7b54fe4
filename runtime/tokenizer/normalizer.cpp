#include "tokenizer/normalizer.hpp"

#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/pattern.hpp"
#include "tokenizer/unicode_normalization.hpp"

namespace mortise::tokenizer {
namespace {

class UnicodeNormalizer final : public Normalizer {
 public:
  explicit UnicodeNormalizer(NormalForm form) : form_(form) {}
  void apply(std::string& text) const override { text = normalize(text, form_); }

 private:
  NormalForm form_;
};

class LowercaseNormalizer final : public Normalizer {
 public:
  void apply(std::string& text) const override { text = to_lower_case(text); }
};

class PrependNormalizer final : public Normalizer {
 public:
  explicit PrependNormalizer(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(std::string& text) const override {
    if (!text.empty()) text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

class ReplaceNormalizer final : public Normalizer {
 public:
  explicit ReplaceNormalizer(const ConfigNode& node)
      : pattern_(node.at("pattern")), content_(node.at("content").as_string()) {}
  void apply(std::string& text) const override { text = pattern_.replace_all(text, content_); }

 private:
  Pattern pattern_;
  std::string content_;
};

class SequenceNormalizer final : public Normalizer {
 public:
  explicit SequenceNormalizer(const ConfigNode& list) {
    for (const ConfigNode& node : list.elements()) parts_.push_back(make_normalizer(node));
  }
  void apply(std::string& text) const override {
    for (const auto& part : parts_) part->apply(text);
  }

 private:
  std::vector<std::unique_ptr<const Normalizer>> parts_;
};

}  // namespace

std::unique_ptr<const Normalizer> make_normalizer(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  if (type == "NFC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfc);
  if (type == "NFD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<UnicodeNormalizer>(NormalForm::kNfkd);
  if (type == "Lowercase") return std::make_unique<LowercaseNormalizer>();
  if (type == "Prepend") return std::make_unique<PrependNormalizer>(node.at("prepend").as_string());
  if (type == "Replace") return std::make_unique<ReplaceNormalizer>(node);
  if (type == "Sequence") return std::make_unique<SequenceNormalizer>(node.at("normalizers"));
  node.fail_unsupported("normalizer", type, "NFC, NFD, NFKC, NFKD, Lowercase, Prepend, Replace and Sequence");
}

}  // namespace mortise::tokenizer
