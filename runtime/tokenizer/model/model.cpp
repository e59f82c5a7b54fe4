#include "tokenizer/model/model.hpp"

#include <string>

#include "tokenizer/model/bpe.hpp"

namespace mortise::tokenizer {

std::unique_ptr<const Model> make_model(const TokenizerFile& file) {
  const ConfigNode node = file.root().at("model");
  // Files from before `tokenizers` 0.10 have no type; a file with merges is BPE.
  const auto type_node = node.find("type");
  const std::string type = type_node ? type_node->as_string() : file.has_merges ? "BPE" : "(none given)";
  if (type == "BPE") return std::make_unique<BpeModel>(file, node);
  node.fail_unsupported("model", type, "BPE");
}

}  // namespace mortise::tokenizer
