// runtime/assembly/swap_options.hpp: how a swap is to be made, besides what it changes.
#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>

namespace mortise {

struct SwapOptions {
  // Steps in which the new parts are first compared with those that run, beside them; 0: they are put in at once.
  std::int32_t verify_steps = 0;
  std::stop_token cancel = {};  // ends the comparison: nobody waits for it any more
  // Whether the part that served before comes back when the new one fails. Not set: for schedulers and proposers,
  // because that costs no more than to create them.
  std::optional<bool> fallback = {};
};

}  // namespace mortise
