#include "tokenizer/post_processor.hpp"

#include <string>
#include <utility>

#include "tokenizer/vocabulary.hpp"

namespace mortise::tokenizer {
namespace {

// ByteLevel as a post-processor corrects offsets only, and there are none.
class NoPostProcessor final : public PostProcessor {
 public:
  void apply(std::vector<std::int32_t>&, bool) const override {}
};

class TemplatePostProcessor final : public PostProcessor {
 public:
  explicit TemplatePostProcessor(const ConfigNode& node) {
    for (const ConfigNode& piece : node.at("single").elements()) {
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
    for (const ConfigNode& id : token->at("ids").elements()) {
      if (id.as_uint32() > Vocabulary::kMaxId) id.fail_expected("the id of a token");
      piece.ids.push_back(static_cast<std::int32_t>(id.as_uint32()));
    }
    pieces_.push_back(std::move(piece));
  }

  std::vector<Piece> pieces_;
};

class SequencePostProcessor final : public PostProcessor {
 public:
  explicit SequencePostProcessor(const ConfigNode& list) {
    bool has_template = false;
    for (const ConfigNode& node : list.elements()) {
      // `tokenizers` gives the second template only the first piece of the first one's result, which loses text.
      const bool is_template = node.at("type").as_string() == "TemplateProcessing";
      if (is_template && has_template) node.fail_expected("one TemplateProcessing in a Sequence");
      has_template = has_template || is_template;
      parts_.push_back(make_post_processor(node));
    }
  }
  void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const override {
    for (const auto& part : parts_) part->apply(ids, add_special_tokens);
  }

 private:
  std::vector<std::unique_ptr<const PostProcessor>> parts_;
};

}  // namespace

std::unique_ptr<const PostProcessor> make_post_processor(const ConfigNode& node) {
  const std::string type = node.at("type").as_string();
  if (type == "ByteLevel") return std::make_unique<NoPostProcessor>();
  if (type == "TemplateProcessing") return std::make_unique<TemplatePostProcessor>(node);
  if (type == "Sequence") return std::make_unique<SequencePostProcessor>(node.at("processors"));
  node.fail_unsupported("post-processor", type, "ByteLevel, TemplateProcessing and Sequence");
}

}  // namespace mortise::tokenizer
