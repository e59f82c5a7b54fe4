// /v1/models and /v1/models/NAME.
#include "json/bounded_json.hpp"
#include "server/routes.hpp"

namespace mortise {
namespace {

nlohmann::ordered_json model_json(const ServedModel& model, std::int64_t since) {
  const ServiceInfo& info = model.service.info();
  return {{"id", model.name},
          {"object", "model"},
          {"created", since},
          {"owned_by", "mortise"},
          {"max_model_len", info.max_model_len},
          {"system_fingerprint", info.system_fingerprint}};
}

}  // namespace

void add_model_routes(Router& router, const Models& models) {
  const auto since = static_cast<std::int64_t>(std::time(nullptr));
  router.add({.method = "GET",
              .path = "/v1/models",
              .cost = Route::Cost::kCheap,
              .handle = [&models, since](const auto& exchange) {
                auto list = nlohmann::ordered_json::array();
                for (const ServedModelRef& model : models.list()) list.push_back(model_json(*model, since));
                exchange->answer(json_answer({{"object", "list"}, {"data", std::move(list)}}));
              }});
  router.add({.method = "GET",
              .path = "/v1/models/*",
              .cost = Route::Cost::kCheap,
              .handle = [&models, since](const auto& exchange) {
                const std::string name = exchange->request.path.substr(std::string("/v1/models/").size());
                const ServedModelRef model = models.find(name);
                exchange->answer(
                    model != nullptr
                        ? json_answer(model_json(*model, since))
                        : error_answer(404, fmt::format("there is no model {}; /v1/models lists them", quote(name)),
                                       "model_not_found"));
              }});
}

}  // namespace mortise
