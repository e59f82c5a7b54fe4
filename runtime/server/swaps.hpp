// runtime/server/swaps.hpp: swaps parts of a served model and records each swap as an event.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "server/admin_events.hpp"
#include "server/models.hpp"

namespace mortise {

// Makes the swap and adds an event to `events`. If the swap is refused, the event says why, and the Error is thrown.
// Returns the event with the parts that serve now. `what` describes the change and who asked for it. [any thread that
// may wait]
nlohmann::ordered_json swap_with_event(const ServedModel& model, nlohmann::ordered_json what, AdminEvents& events,
                                       const std::function<ServedSwap()>& swap);

// {"part", "step", "request", "choice", "layer", "position", "element", ...}, as far as they are known.
nlohmann::ordered_json difference_json(const SwapDifference& where);

// Returns the parts that serve the model, as JSON.
nlohmann::ordered_json parts_json(const ServedModel& model);
nlohmann::ordered_json parts_json(const std::vector<ServedPart>& parts);

}  // namespace mortise
