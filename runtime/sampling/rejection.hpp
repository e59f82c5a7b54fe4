// runtime/sampling/rejection.hpp: rejection sampling of drafts (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv
// 2302.01318): a draft x drawn from q stands with probability min(1, p(x) / q(x)); in its place comes a token drawn
// from max(0, p - q), normalised. Whatever q is, the result has the distribution p.
//
// What is drawn is a function of (key, position) and of the two distributions. The counters differ from those of the
// sampling noise in their last word, so the decision does not depend on the noise that the draft was drawn with, which
// is what the proof needs.
#pragma once

#include <cstdint>
#include <span>

namespace mortise {

// The token at `position`: `draft`, or the recovered one, which is never equal to it. -1 when no token can be drawn (p
// is 0 everywhere). `q` need not be normalised; empty: the draft was certain, all of q lies on it. REQUIRES: draft is
// an index into p; q is empty or as long as p, not negative, finite, and positive in sum.
std::int32_t rejection_sample(std::span<const double> p, std::span<const float> q, std::int32_t draft,
                              std::uint64_t key, std::int64_t position);

}  // namespace mortise
