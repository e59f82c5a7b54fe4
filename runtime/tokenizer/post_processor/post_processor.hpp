// runtime/tokenizer/post_processor/post_processor.hpp: the fourth stage: puts the model's special tokens around the ids
// of a text. Single texts only; a tokenizer's template for pairs is not read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tokenizer/file/config_node.hpp"

namespace mortise::tokenizer {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const = 0;
};

// Throws Error for a post-processor that is malformed or not supported.
std::unique_ptr<const PostProcessor> make_post_processor(const ConfigNode& node);

}  // namespace mortise::tokenizer
