#include "server/swaps.hpp"

#include <algorithm>
#include <chrono>

#include "error.hpp"

namespace mortise {
namespace {

// The parts of `list` that `others` does not have.
nlohmann::ordered_json without(const nlohmann::ordered_json& list, const nlohmann::ordered_json& others) {
  auto rest = nlohmann::ordered_json::array();
  for (const auto& part : list) {
    if (std::ranges::find(others, part) == others.end()) rest.push_back(part);
  }
  return rest;
}

}  // namespace

nlohmann::ordered_json parts_json(const ServedModel& model) {
  auto parts = nlohmann::ordered_json::array();
  for (const ServedPart& part : model.parts()) {
    parts.push_back({{"role", part.role},
                     {"name", part.name},
                     {"version", part.version},
                     {"file", part.file},
                     {"hash", part.hash}});
  }
  return parts;
}

nlohmann::ordered_json swap_with_event(const ServedModel& model, nlohmann::ordered_json what, AdminEvents& events,
                                       const std::function<ServedSwap()>& swap) {
  const auto begin = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  const nlohmann::ordered_json before = parts_json(model);
  nlohmann::ordered_json event = {{"event", "swap"}, {"model", model.name}};
  event.update(what);
  try {
    const auto [figures, serves] = swap();
    event.update({{"generation", figures.generation},
                  {"duration_s", elapsed()},
                  {"largest_gap_s", figures.pause_s},
                  {"recomputed_sequences", figures.num_recomputed},
                  {"serves", serves->name},
                  {"system_fingerprint", serves->service.info().system_fingerprint},
                  {"parts", parts_json(*serves)}});
    event["replaced"] = without(before, event["parts"]);
  } catch (const Error& error) {
    event["event"] = "swap refused";
    event.update({{"duration_s", elapsed()}, {"parts", before}, {"error", error.what()}});
    events.add(std::move(event));
    // A part that could not be opened is what was asked for, and no failure of the server.
    if (error.code() == ErrorCode::kInternal) throw Error(error.what(), ErrorCode::kInvalid);
    throw;
  }
  events.add(event);
  return event;
}

}  // namespace mortise
