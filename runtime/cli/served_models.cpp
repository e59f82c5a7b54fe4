#include "cli/served_models.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "assembly/another_model.hpp"
#include "error.hpp"

namespace mortise {
namespace {

void warn_of_small_cache(const OpenPipeline& pipeline) {
  const EngineLimits limits = pipeline.assembly.limits();
  const std::int64_t kv_tokens = std::int64_t{limits.num_blocks} * limits.block_size;
  if (kv_tokens >= limits.max_model_len) return;
  spdlog::warn(
      "{}: the KV cache holds {} tokens, but the model allows {}: longer requests are refused; raise kv_cache.memory",
      pipeline.service.info().model, kv_tokens, limits.max_model_len);
}

}  // namespace

std::vector<ServedPart> served_parts(const std::vector<const Component*>& components) {
  std::vector<ServedPart> parts;
  for (const Component* component : components) {
    parts.push_back({kind_name(component->kind), component->name, component->version,
                     component->file.filename().string(), component->hash});
  }
  return parts;
}

ServedModels::ServedModels(Session& session, const KvEventPublishers& kv_events, std::size_t max_waiting)
    : session_(session),
      kv_events_(kv_events),
      max_waiting_(max_waiting),
      models_(open_all(), [&session](nlohmann::json& body) { session.route(body); }) {}

std::vector<ServedModelRef> ServedModels::open_all() {
  std::vector<ServedModelRef> models;
  const std::vector<OpenPipeline*> all = session_.open_all();
  for (OpenPipeline* pipeline : all) models.push_back(serve(*pipeline, kv_events_.describe(models.size())));
  return models;
}

ServedModelRef ServedModels::serve(OpenPipeline& pipeline, nlohmann::json kv_events) {
  warn_of_small_cache(pipeline);
  return std::make_shared<const ServedModel>(ServedModel{
      .name = pipeline.service.info().model,
      .service = pipeline.service,
      .engine = pipeline.engine,
      .tokenizer = pipeline.assembly.tokenizer(),
      .parts = [&pipeline] { return served_parts(pipeline.assembly.components()); },
      .block_size = [&pipeline] { return pipeline.assembly.limits().block_size; },
      .swap = [this, &pipeline](
                  const PartChange& change,
                  const SwapOptions& options) { return swap(pipeline, pipeline.try_change(change), options); },
      .kv_events = std::move(kv_events),
      .max_waiting = max_waiting_,
      .tokenizer_config = nlohmann::json::parse(pipeline.assembly.tokenizer().config())});
}

ServedModelRef ServedModels::find(const OpenPipeline& pipeline) const {
  const std::vector<ServedModelRef> list = models_.list();
  const auto is_its = [&](const ServedModelRef& model) { return &model->service == &pipeline.service; };
  const auto at = std::ranges::find_if(list, is_its);
  return at == list.end() ? nullptr : *at;
}

ServedSwap ServedModels::swap(OpenPipeline& pipeline, const PipelineDescription& next, const SwapOptions& options) {
  const auto find_running = [&] {
    ServedModelRef found = find(pipeline);
    if (found != nullptr) return found;
    fail(ErrorCode::kConflict, "another swap has replaced this model meanwhile; send the request again");
  };
  const ServedModelRef running = find_running();
  try {
    return {pipeline.swap(next, options), running};
  } catch (const AnotherModelError& error) {
    if (options.verify_steps > 0) throw;  // with another model there is nothing to compare
    if (!running->kv_events.is_null()) {
      fail(ErrorCode::kConflict,
           "{}; routers would mistake the KV events at {} for events of the model that runs: start another server",
           error.what(), running->kv_events.at("endpoint").get<std::string>());
    }
  }
  const std::lock_guard lock(replacing_);
  find_running();
  std::unique_ptr<OpenPipeline> other = session_.open_beside(pipeline, next);
  ServedModelRef serves = serve(*other, nullptr);
  session_.replace(pipeline, std::move(other), running);
  models_.replace(*running, serves);
  return {SwapFigures{}, std::move(serves)};
}

}  // namespace mortise
