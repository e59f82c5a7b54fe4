// runtime/engine/in_flight.hpp: prefixes that are being computed right now. Requests that come together and share a
// prefix would each compute it, since none finds it in the cache; instead one computes it and the others wait.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/sequence.hpp"

namespace mortise {

// The live sequences that may run in this step, in order of arrival: all, but for those that wait and would compute a
// prefix that an earlier one of at least their priority computes next: the same block, or for completions of one prompt
// the rest of that. They wait only for what is at least half of
// their own work, and never on a sequence that is itself held back. REQUIRES: SequenceKv::look_up() for all that wait.
std::vector<Sequence*> without_followers(const std::deque<std::shared_ptr<Sequence>>& live, std::int32_t block_size);

}  // namespace mortise
