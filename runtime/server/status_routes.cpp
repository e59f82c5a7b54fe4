// The state of the server: /health, /ready, /version for probes, /status for people.
#include "loader/host_services.hpp"
#include "server/routes.hpp"
#include "server/swaps.hpp"

namespace mortise {
namespace {

using Json = nlohmann::ordered_json;

// The error of the first failed engine, or "".
std::string failure_of(const Models& models) {
  for (const ServedModelRef& model : models.list()) {
    const EngineHealth health = model->engine.health();
    if (health.state == EngineHealth::State::kFailed) return model->name + ": " + health.reason;
  }
  return "";
}

void answer_probe(const Models& models, bool draining, const std::shared_ptr<Exchange>& exchange) {
  const std::string failure = failure_of(models);
  if (!failure.empty()) return exchange->answer(error_answer(503, failure, "unavailable"));
  if (draining) return exchange->answer(error_answer(503, "the server is about to end", "unavailable"));
  exchange->answer(json_answer({{"status", "ok"}}));
}

const char* name_of(EngineHealth::State state) {
  switch (state) {
    case EngineHealth::State::kOk:
      return "ok";
    case EngineHealth::State::kDraining:
      return "draining";
    case EngineHealth::State::kFailed:
      return "failed";
  }
  return "";
}

Json speculation_json(const SpeculationStats& stats) {
  Json list = Json::array();
  for (const ProposerStats& proposer : stats.proposers) {
    Json positions = Json::array();
    for (std::size_t i = 0; i < proposer.drafted_at.size(); ++i) {
      positions.push_back({{"drafted", proposer.drafted_at[i]}, {"accepted", proposer.accepted_at[i]}});
    }
    list.push_back({{"proposer", proposer.name}, {"by_position", std::move(positions)}});
  }
  return list;
}

Json status_json(const ServedModel& model) {
  const EngineStats stats = model.engine.stats();
  const ServiceInfo& info = model.service.info();
  return {{"name", model.name},
          {"system_fingerprint", info.system_fingerprint},
          {"max_model_len", info.max_model_len},
          {"health", name_of(model.engine.health().state)},
          {"parts", parts_json(model)},
          {"running", stats.num_running},
          {"waiting", stats.num_waiting},
          {"last_step",
           {{"sequences", stats.last_batch.num_sequences},
            {"prompt_rows", stats.last_batch.prompt_rows},
            {"decode_rows", stats.last_batch.decode_rows},
            {"draft_rows", stats.last_batch.draft_rows}}},
          {"blocks",
           {{"held", stats.num_blocks - stats.num_free_blocks - stats.num_cached_free_blocks},
            {"cached", stats.num_cached_free_blocks},
            {"free", stats.num_free_blocks},
            {"total", stats.num_blocks}}},
          {"block_size", model.block_size()},
          {"kv_events", model.kv_events},
          {"steps", stats.num_steps},
          {"generated_tokens", stats.num_generated},
          {"prompt_tokens", stats.num_admitted_tokens},
          {"cached_prompt_tokens", stats.num_cached_tokens},
          {"preemptions", stats.num_preemptions},
          {"speculation", speculation_json(stats.speculation)}};
}

}  // namespace

void add_status_routes(Router& router, const Models& models, std::function<bool()> draining) {
  const auto add = [&](const char* path, Route::Access access, auto handle) {
    router.add(
        {.method = "GET", .path = path, .access = access, .cost = Route::Cost::kCheap, .handle = std::move(handle)});
  };
  using Access = Route::Access;
  add("/health", Access::kOpen,
      [&models](const auto& exchange) { answer_probe(models, /*draining=*/false, exchange); });
  add("/ready", Access::kOpen,
      [&models, draining](const auto& exchange) { answer_probe(models, draining(), exchange); });
  add("/version", Access::kOpen, [](const auto& exchange) { exchange->answer(json_answer({{"version", kVersion}})); });
  const auto begin = std::chrono::steady_clock::now();
  add("/status", Access::kWithKey, [&models, draining, begin](const auto& exchange) {
    const auto uptime = std::chrono::steady_clock::now() - begin;
    Json list = Json::array();
    for (const ServedModelRef& model : models.list()) list.push_back(status_json(*model));
    exchange->answer(json_answer({{"version", kVersion},
                                  {"uptime_s", std::chrono::duration<double>(uptime).count()},
                                  {"draining", draining()},
                                  {"models", std::move(list)}}));
  });
}

}  // namespace mortise
