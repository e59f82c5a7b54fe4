// runtime/abi_check/attention_state.hpp: what the checks remember of an attention.
#pragma once

#include <cstdint>
#include <set>

#include "abi_check/call.hpp"
#include "mortise/attention.h"

namespace mortise::abi_check {

// The state of an attention. Calls of the attention use it, and calls of the model, on the thread that runs steps.
struct Attention : Instance {
  using Instance::Instance;

  bool is_bound = false;
  mortise_model_dims dims{};  // given to bind, as are the next two
  std::int32_t block_size = 0;
  std::int32_t num_blocks = 0;
  bool is_planned = false;
  std::uint64_t step_id = 0;  // of the last plan, as are the next three
  std::int32_t num_rows = 0;
  std::set<std::int32_t> appended, has_run;  // layers
};

}  // namespace mortise::abi_check
