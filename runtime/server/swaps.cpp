#include "server/swaps.hpp"

#include <chrono>

#include "error.hpp"

namespace mortise {

nlohmann::ordered_json parts_json(const ServedModel& model) {
  return parts_json(model.parts());
}

nlohmann::ordered_json parts_json(const std::vector<ServedPart>& list) {
  auto parts = nlohmann::ordered_json::array();
  for (const ServedPart& part : list) {
    parts.push_back({{"role", part.role},
                     {"name", part.name},
                     {"version", part.version},
                     {"file", part.file},
                     {"hash", part.hash}});
  }
  return parts;
}

nlohmann::ordered_json swap_with_event(const ServedModel& model, nlohmann::ordered_json what, AdminEvents& events,
                                       const std::function<SwapFigures()>& swap) {
  const auto begin = std::chrono::steady_clock::now();
  nlohmann::ordered_json event = {{"event", "swap"}, {"model", model.name}};
  event.update(what);
  try {
    const SwapFigures figures = swap();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    event.update({{"generation", figures.generation},
                  {"duration_s", took.count()},
                  {"largest_gap_s", figures.pause_s},
                  {"recomputed_sequences", figures.num_recomputed},
                  {"parts", parts_json(model)}});
  } catch (const Error& error) {
    event["event"] = "swap refused";
    event["error"] = error.what();
    events.add(std::move(event));
    // A part that could not be opened is what was asked for, and no failure of the server.
    if (error.code() == ErrorCode::kInternal) throw Error(error.what(), ErrorCode::kInvalid);
    throw;
  }
  events.add(event);
  return event;
}

}  // namespace mortise
