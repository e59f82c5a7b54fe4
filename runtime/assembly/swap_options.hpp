// runtime/assembly/swap_options.hpp: options of a swap.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

namespace mortise {

struct SwapOptions {
  // Number of steps in which the candidate first runs beside the serving parts and is compared; 0: swap at once.
  std::int32_t verify_steps = 0;
  std::stop_token cancel = {};  // ends the comparison when its caller has left
  // Whether the previous part comes back when the new one fails. Not set: only for schedulers and proposers, because
  // they cost little to create again.
  std::optional<bool> fallback = {};
};

}  // namespace mortise
