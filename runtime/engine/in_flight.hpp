// runtime/engine/in_flight.hpp: holds back sequences whose prefix is being computed. Requests that arrive together and
// share a prefix would each compute it, because none finds it in the cache. Instead one computes it and the others
// wait. Engine's thread only.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "engine/sequence.hpp"

namespace mortise {

// Returns the live sequences that may run in this step, in order of arrival: all but the waiting sequences that are
// held back. A waiting sequence is held back while an earlier sequence of the same or a better priority computes the
// prefix block that it needs next. A completion is also held back while an earlier completion computes their common
// prompt. Both rules apply only if the shared prefix is at least half of the sequence's own work, and if the earlier
// sequence leaves the scores that the later one wants. A sequence that is itself held back for its next block holds
// back no other. REQUIRES: SequenceKv::look_up() for every waiting sequence.
std::vector<Sequence*> without_held_back(const std::deque<std::shared_ptr<Sequence>>& live, std::int32_t block_size);

}  // namespace mortise
