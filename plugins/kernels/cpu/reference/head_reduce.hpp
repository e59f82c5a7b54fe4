// plugins/kernels/cpu/reference/head_reduce.hpp: the scalar form of head/head_reduce.hpp for one row over the whole
// vocabulary.
// REQUIRES: DenormalsOff.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace mortise::cpu::reference {

float clean(float logit);

struct LogSumExp {
  float max, sum, lse;
};
LogSumExp log_sum_exp(const std::vector<float>& logits);

// All tokens in the order (clean logit descending, id ascending).
std::vector<std::pair<float, std::int32_t>> ordered(const std::vector<float>& logits);

}  // namespace mortise::cpu::reference
