// runtime/sampling/rejection.hpp: rejection sampling of drafts (Leviathan et al., arXiv:2211.17192; Chen et al.,
// arXiv:2302.01318), for devices without mortise/ext/rejection.h. A draft x drawn from q is accepted with probability
// min(1, p(x) / q(x)); otherwise a token drawn from the normalised max(0, p - q) replaces it. For every q the result
// has the distribution p.
//
// The result is a function of (key, position) and the two distributions. The last word of the counters differs from
// that of the sampling noise, so the decision is independent of the noise with which the draft was drawn, as the proof
// requires.
#pragma once

#include <cstdint>
#include <span>

namespace mortise {

// Returns the token at `position`: `draft`, or the recovered token, which never equals it. -1 if no token can be drawn
// (all weights are 0). `weights` are those of target_weights(). `q` need not be normalised; an empty q means that the
// draft was certain. The bits are those of docs/numerics.md, "Rejection sampling". REQUIRES: draft is an index into
// `weights`; q is empty or as long as `weights`, finite, not negative.
std::int32_t rejection_sample(std::span<const std::uint64_t> weights, std::span<const float> q, std::int32_t draft,
                              std::uint64_t key, std::int64_t position);

}  // namespace mortise
