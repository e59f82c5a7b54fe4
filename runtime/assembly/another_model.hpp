// runtime/assembly/another_model.hpp: the refusal of a swap that names another model.
#pragma once

#include <string>

#include "error.hpp"

namespace mortise {

// Thrown if the requested model gives other tokens than the serving model, or has another max_model_len, so that the
// running engine cannot take it. A caller that can open a second pipeline may replace the whole pipeline instead. A
// value: each thread has its own.
class AnotherModelError : public Error {
 public:
  explicit AnotherModelError(const std::string& text) : Error(text, ErrorCode::kConflict) {}
};

}  // namespace mortise
