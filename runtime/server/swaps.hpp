// runtime/server/swaps.hpp: swaps of a server's parts as events.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/swap.hpp"
#include "server/admin_events.hpp"
#include "server/models.hpp"

namespace mortise {

// Makes the swap and tells it to `events`, or why it was refused; then throws the Error. Returns what is answered: the
// event, and the parts that run now. `what` says who wants what, beside the model. [any thread that may wait]
nlohmann::ordered_json swap_with_event(const ServedModel& model, nlohmann::ordered_json what, AdminEvents& events,
                                       const std::function<SwapFigures()>& swap);

// The parts that serve the model, as JSON.
nlohmann::ordered_json parts_json(const ServedModel& model);
nlohmann::ordered_json parts_json(const std::vector<ServedPart>& parts);

}  // namespace mortise
