#include "sampling/rejection.hpp"

#include "mortise/numerics.h"
#include "sampling/denormals_off.hpp"

namespace mortise {

std::int32_t rejection_sample(std::span<const std::uint64_t> weights, std::span<const float> q, std::int32_t draft,
                              std::uint64_t key, std::int64_t position) {
  const DenormalsOff denormals_off;
  return mortise_verify_draft(weights.data(), q.empty() ? nullptr : q.data(), static_cast<std::int64_t>(weights.size()),
                              draft, key, static_cast<std::uint64_t>(position));
}

}  // namespace mortise
