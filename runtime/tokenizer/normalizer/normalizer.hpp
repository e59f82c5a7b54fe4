// runtime/tokenizer/normalizer/normalizer.hpp: the first stage: text to text, before anything is split.
#pragma once

#include <memory>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/normalizer/working_text.hpp"

namespace mortise::tokenizer {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // REQUIRES: valid UTF-8; leaves valid UTF-8. Throws Error when the text grows without measure or a regular expression
  // fails on it.
  virtual void apply(WorkingText& text) const = 0;
};

// Throws Error for a normalizer that is malformed or not supported.
std::unique_ptr<const Normalizer> make_normalizer(const ConfigNode& node);

}  // namespace mortise::tokenizer
