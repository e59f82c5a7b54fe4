// runtime/replay/numerics_change.hpp: describes how two numerics ids differ, and what brings the former back.
#pragma once

#include <string>

namespace mortise {

// "'attention attention-span256/1' is now 'attention attention-span128/1', 'kv bf16' is gone"; empty if they are equal.
std::string describe_change(const std::string& before, const std::string& now);

// "; cpu { numerics = "tiles" } brings class cpu-bf16/1 back" if the ids differ in the order of the CPU's sums;
// otherwise empty.
std::string numerics_remedy(const std::string& before, const std::string& now);

}  // namespace mortise
