// runtime/replay/numerics_change.hpp: describes how two numerics ids differ.
#pragma once

#include <string>

namespace mortise {

// "'attention attention-span256/1' is now 'attention attention-span128/1', 'kv bf16' is gone"; empty if they are equal.
std::string describe_change(const std::string& before, const std::string& now);

}  // namespace mortise
