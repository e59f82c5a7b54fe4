#include "tokenizer/post_processor/post_processor.hpp"

#include <cstddef>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tokenizer/model/vocabulary.hpp"

namespace mortise::tokenizer {
namespace {

// ByteLevel as a post-processor only corrects offsets, which are not computed here.
class NoPostProcessor final : public PostProcessor {
 public:
  void apply(std::vector<std::int32_t>&, bool) const override {}
};

constexpr std::size_t kMaxTemplatePieces = 256;  // each may repeat the text; published templates have two or three

std::int32_t read_token_id(const ConfigNode& node) {
  if (node.as_uint32() > Vocabulary::kMaxId) node.fail_expected("the id of a token");
  return static_cast<std::int32_t>(node.as_uint32());
}

// TemplateProcessing: puts special tokens around the ids of a text. Immutable.
class TemplatePostProcessor final : public PostProcessor {
 public:
  explicit TemplatePostProcessor(const ConfigNode& node) {
    const auto pieces = node.at("single").elements();
    if (pieces.size() > kMaxTemplatePieces) {
      node.at("single").fail_expected(fmt::format("at most {} pieces", kMaxTemplatePieces));
    }
    for (const ConfigNode& piece : pieces) {
      if (const auto sequence = piece.find("Sequence")) {
        const ConfigNode id = sequence->at("id");
        if (id.as_string() != "A") id.fail_expected("\"A\", the only text of a single one");
        pieces_.emplace_back();
      } else {
        read_special_token(piece.at("SpecialToken").at("id"), node);
      }
    }
  }

  void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const override {
    std::vector<std::int32_t> processed;
    for (const Piece& piece : pieces_) {
      if (piece.is_text) {
        processed.insert(processed.end(), ids.begin(), ids.end());
      } else if (add_special_tokens) {
        processed.insert(processed.end(), piece.ids.begin(), piece.ids.end());
      }
    }
    ids = std::move(processed);
  }

 private:
  struct Piece {
    bool is_text = true;
    std::vector<std::int32_t> ids;
  };

  void read_special_token(const ConfigNode& name, const ConfigNode& node) {
    const ConfigNode special_tokens = node.at("special_tokens");
    const auto token = special_tokens.find(name.as_string());
    if (!token) name.fail_expected("a token of special_tokens");
    Piece piece{/*is_text=*/false, {}};
    for (const ConfigNode& id : token->at("ids").elements()) piece.ids.push_back(read_token_id(id));
    pieces_.push_back(std::move(piece));
  }

  std::vector<Piece> pieces_;
};

// BertProcessing and RobertaProcessing: one token in front of the text and one after it. Their other effects concern
// pairs and offsets.
class EnclosingPostProcessor final : public PostProcessor {
 public:
  explicit EnclosingPostProcessor(const ConfigNode& node)
      : first_(read_named_id(node.at("cls"))), last_(read_named_id(node.at("sep"))) {}

  void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const override {
    if (!add_special_tokens) return;
    ids.insert(ids.begin(), first_);
    ids.push_back(last_);
  }

 private:
  static std::int32_t read_named_id(const ConfigNode& node) {
    const auto parts = node.elements();
    if (parts.size() != 2) node.fail_expected("a token and its id");
    parts[0].as_string();
    return read_token_id(parts[1]);
  }

  std::int32_t first_;
  std::int32_t last_;
};

// Sequence: applies post-processors one after the other. Immutable.
class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(const ConfigNode& list) {
    bool has_template = false;
    append(list, has_template);
  }
  void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const override {
    for (const auto& part : parts_) part->apply(ids, add_special_tokens);
  }

 private:
  // Nothing may follow a template: `tokenizers` would give it the parts of the result one by one, which loses or
  // repeats text.
  void append(const ConfigNode& list, bool& has_template) {
    for (const ConfigNode& node : list.elements()) {
      const std::string type = node.at("type").as_string();
      if (type == "Sequence") {
        append(node.at("processors"), has_template);
        continue;
      }
      if (has_template && type != "ByteLevel") node.fail_expected("nothing but ByteLevel after a TemplateProcessing");
      has_template = has_template || type == "TemplateProcessing";
      parts_.push_back(make_post_processor(node));
    }
  }

  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

}  // namespace

std::unique_ptr<const PostProcessor> make_post_processor(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  if (type == "ByteLevel") return std::make_unique<NoPostProcessor>();
  if (type == "TemplateProcessing") return std::make_unique<TemplatePostProcessor>(node);
  if (type == "BertProcessing" || type == "RobertaProcessing") return std::make_unique<EnclosingPostProcessor>(node);
  if (type == "Sequence") return std::make_unique<SequencePostProcessor>(node.at("processors"));
  node.fail_unsupported("post-processor", type,
                        "ByteLevel, TemplateProcessing, BertProcessing, RobertaProcessing and "
                        "Sequence");
}

}  // namespace mortise::tokenizer
