// runtime/assembly/swap_options.hpp: what whoever asks for a swap may wish besides the parts.
#pragma once

#include <optional>

namespace mortise {

struct SwapOptions {
  // Whether the part that served before comes back when the new one fails. Not set: for schedulers and proposers,
  // because that costs no more than to create them.
  std::optional<bool> fallback;
};

}  // namespace mortise
