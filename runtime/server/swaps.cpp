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

namespace {

nlohmann::ordered_json drafts_json(const VerifiedFigures::Drafts& drafts) {
  return {{"draft_tokens", drafts.num_drafts}, {"accepted_tokens", drafts.num_accepted}, {"draft_s", drafts.seconds}};
}

nlohmann::ordered_json verified_json(const VerifiedFigures& figures) {
  auto json = nlohmann::ordered_json::object();
  if (figures.attention_rows) json["attention"] = {{"rows", *figures.attention_rows}};
  if (figures.model_rows) json["model"] = {{"rows", *figures.model_rows}};
  if (figures.scheduler) {
    const double plans = static_cast<double>(figures.scheduler->num_plans);
    json["scheduler"] = {{"plans", figures.scheduler->num_plans},
                         {"plan_s", figures.scheduler->candidate_s / plans},
                         {"serving_plan_s", figures.scheduler->serving_s / plans}};
  }
  if (figures.proposer) {
    json["proposer"] = drafts_json(figures.proposer->candidate);
    json["proposer"]["serving"] = drafts_json(figures.proposer->serving);
  }
  return json;
}

nlohmann::ordered_json element_json(const ElementBits& element, std::int32_t bits) {
  return {{"value", element.value}, {"bits", fmt::format("0x{:0{}x}", element.bits, bits / 4)}};
}

}  // namespace

nlohmann::ordered_json difference_json(const SwapDifference& where) {
  const Difference& difference = where.difference;
  nlohmann::ordered_json json = {{"part", where.part}, {"step", where.step}, {"equal_steps", where.num_equal_steps}};
  if (where.request) json.update({{"request", *where.request}, {"choice", where.choice}});
  if (difference.layer >= 0) json["layer"] = difference.layer;
  if (difference.position >= 0) json["position"] = difference.position;
  if (difference.element < 0) {
    json["why"] = difference.failure;
    return json;
  }
  json.update({{"what", difference.what},
               {"element", difference.element},
               {"serving", element_json(difference.serving, difference.bits)},
               {"candidate", element_json(difference.candidate, difference.bits)}});
  return json;
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
                  {"pause_s", figures.pause_s},
                  {"largest_gap_s", figures.largest_gap_s},
                  {"recomputed_sequences", figures.num_recomputed},
                  {"verified_steps", figures.verified_steps},
                  {"serves", serves->name},
                  {"system_fingerprint", serves->service.info().system_fingerprint},
                  {"parts", parts_json(*serves)}});
    event["replaced"] = without(before, event["parts"]);
    if (figures.verified_steps > 0) event["verified"] = verified_json(figures.verified);
  } catch (const Error& error) {
    event["event"] = "swap refused";
    event.update({{"duration_s", elapsed()}, {"parts", before}, {"error", error.what()}});
    if (const auto* const found = dynamic_cast<const DifferenceError*>(&error)) {
      event["where"] = difference_json(found->where());
    }
    events.add(std::move(event));
    // The client named a part that cannot be opened; that is not a failure of the server.
    if (error.code() == ErrorCode::kInternal) throw Error(error.what(), ErrorCode::kInvalid);
    throw;
  }
  events.add(event);
  return event;
}

}  // namespace mortise
