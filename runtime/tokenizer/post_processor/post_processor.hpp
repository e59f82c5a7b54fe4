// runtime/tokenizer/post_processor/post_processor.hpp: the fourth stage: adds the model's special tokens to the ids of
// a text. For single texts only; templates for pairs are not read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tokenizer/file/config_node.hpp"

namespace mortise::tokenizer {

// A post-processor of tokenizer.json. Immutable and thread-safe.
class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual void apply(std::vector<std::int32_t>& ids, bool add_special_tokens) const = 0;
};

// Throws an Error for a malformed or unsupported post-processor.
std::unique_ptr<const PostProcessor> make_post_processor(const ConfigNode& node);

}  // namespace mortise::tokenizer
