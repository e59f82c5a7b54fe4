// runtime/assembly/another_model.hpp: the refusal of a swap that names another model.
#pragma once

#include <string>

#include "error.hpp"

namespace mortise {

// The `model` that is wanted gives other tokens than the one that runs, or has another max_model_len: an engine cannot
// take it. Who can open it beside the one that runs may put it in that one's place.
class AnotherModelError : public Error {
 public:
  explicit AnotherModelError(const std::string& text) : Error(text, ErrorCode::kConflict) {}
};

}  // namespace mortise
