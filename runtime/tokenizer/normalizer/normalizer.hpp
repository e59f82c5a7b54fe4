// runtime/tokenizer/normalizer/normalizer.hpp: the first stage: text to text, before anything is split.
#pragma once

#include <memory>

#include "tokenizer/file/config_node.hpp"
#include "tokenizer/normalizer/working_text.hpp"

namespace mortise::tokenizer {

// A normalizer of tokenizer.json. Immutable. Any thread may use it.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Throws an Error if the text grows too much, or if a regular expression fails on it. Thread-safe.
  // REQUIRES: valid UTF-8; the result is valid UTF-8.
  virtual void apply(WorkingText& text) const = 0;
};

// Throws an Error for a malformed or unsupported normalizer.
std::unique_ptr<const Normalizer> make_normalizer(const ConfigNode& node);

}  // namespace mortise::tokenizer
