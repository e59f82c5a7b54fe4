// runtime/tokenizer/model/model.hpp: the third stage: turns the pieces of a text into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tokenizer/file/tokenizer_file.hpp"
#include "tokenizer/pre_tokenizer/pre_tokenizer.hpp"

namespace mortise::tokenizer {

// A model of tokenizer.json. Immutable. Any thread may use it.
class Model {
 public:
  virtual ~Model() = default;
  // Appends the ids of all pieces. Thread-safe.
  virtual void tokenize(const PreTokenized& text, std::vector<std::int32_t>& ids) const = 0;
};

// `file` must outlive the model. Throws an Error for a malformed or unsupported model.
std::unique_ptr<const Model> make_model(const TokenizerFile& file);

}  // namespace mortise::tokenizer
