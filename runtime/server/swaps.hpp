// runtime/server/swaps.hpp: swaps of a server's parts as events.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/admin_events.hpp"
#include "server/models.hpp"

namespace mortise {

// Makes the swap and tells it to `events`, or why it was refused; then throws the Error. Returns what is answered: the
// event, with the parts that serve now. `what` says who wants what, beside the model. [any thread that may wait]
nlohmann::ordered_json swap_with_event(const ServedModel& model, nlohmann::ordered_json what, AdminEvents& events,
                                       const std::function<ServedSwap()>& swap);

// {"part", "step", "request", "choice", "layer", "position", "element", ...}: what there is of it.
nlohmann::ordered_json place_json(const SwapDifference& where);

// The parts that serve the model, as JSON.
nlohmann::ordered_json parts_json(const ServedModel& model);
nlohmann::ordered_json parts_json(const std::vector<ServedPart>& parts);

}  // namespace mortise
