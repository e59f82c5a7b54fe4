// runtime/assembly/swap_options.hpp: how a swap is to be made, besides what it changes.
#pragma once

#include <cstdint>
#include <stop_token>

namespace mortise {

struct SwapOptions {
  // Steps in which the new parts are first compared with those that run, beside them; 0: they are put in at once.
  std::int32_t verify_steps = 0;
  std::stop_token cancel = {};  // ends the comparison: nobody waits for it any more
};

}  // namespace mortise
