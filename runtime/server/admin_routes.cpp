// /admin/swap, /admin/parts, /admin/events, /admin/reload, /admin/drain: for the operator. Route::Access::kAdmin says
// who may use them.
#include <algorithm>
#include <memory>
#include <stop_token>
#include <utility>

#include "error.hpp"
#include "loader/nearest.hpp"
#include "openai/error_body.hpp"
#include "server/routes.hpp"
#include "server/swaps.hpp"

namespace mortise {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const nlohmann::json& body, const char* field) {
  const auto value = body.find(field);
  if (value == body.end() || value->is_null()) return "";
  if (!value->is_string()) fail("{} is {}; expected a text", field, show_value(*value));
  return value->get<std::string>();
}

// Reads {"verify_steps": 100, "fallback": true} in a body.
SwapOptions read_options(const nlohmann::json& body) {
  SwapOptions options;
  if (const auto value = body.find("fallback"); value != body.end() && !value->is_null()) {
    if (!value->is_boolean()) fail("fallback is {}; expected true or false", show_value(*value));
    options.fallback = value->get<bool>();
  }
  const auto steps = body.find("verify_steps");
  if (steps == body.end() || steps->is_null()) return options;
  constexpr std::int32_t kMax = 1'000'000;
  if (!steps->is_number_integer() || *steps < 0 || *steps > kMax) {
    fail("verify_steps is {}; expected a number of steps from 0 (none is compared) to {}", show_value(*steps), kMax);
  }
  options.verify_steps = steps->get<std::int32_t>();
  return options;
}

// {"part": "attention", "plugin": "cascade", "options": {"block_size": 16}, "model": NAME, "verify_steps": 100,
// "fallback": true}
PartChange read_change(const nlohmann::json& body) {
  if (!body.is_object()) fail("the body must be an object, {{\"part\": \"scheduler\", \"plugin\": \"fcfs\"}}");
  const std::vector<std::string> known = {"part", "plugin", "options", "model", "verify_steps", "fallback"};
  for (const auto& [field, unused] : body.items()) {
    if (std::ranges::find(known, field) != known.end()) continue;
    fail("unknown field '{}'{}; there are: {}", field, did_you_mean(field, known), join_names(known));
  }
  PartChange change{text_of(body, "part"), text_of(body, "plugin")};
  if (change.key.empty()) fail("the field part is missing: device, model, attention, scheduler, proposer, ...");
  const bool is_table = change.key == "kv_cache" || change.key == "speculation";
  if (is_table && !change.plugin.empty()) fail("{} accepts options only, not a plugin", change.key);
  if (!is_table && change.plugin.empty())
    fail("the field plugin is missing: the name or file of the new {}", change.key);
  if (const auto options = body.find("options"); options != body.end() && !options->is_null()) {
    if (!options->is_object()) fail("options is {}; expected an object", show_value(*options));
    change.options = *options;
  }
  return change;
}

void answer_swap(const Models& models, AdminEvents& events, const std::shared_ptr<Exchange>& exchange) {
  const nlohmann::json body = read_json_body(*exchange);
  const PartChange change = read_change(body);
  SwapOptions options = read_options(body);
  std::stop_source gone;  // a client that goes away ends the comparison
  options.cancel = gone.get_token();
  exchange->pending([gone]() mutable { gone.request_stop(); });
  const ServedModelRef model = models.of(body);
  Json what = {{"by", exchange->request.peer},
               {"request", exchange->request.id},
               {"part", change.key},
               {"plugin", change.plugin},
               {"options", change.options}};
  if (options.verify_steps > 0) what["verify_steps"] = options.verify_steps;
  try {
    exchange->answer(json_answer(swap_with_event(*model, what, events, [&] { return model->swap(change, options); })));
  } catch (const DifferenceError& error) {
    Json answer = error_body(409, error.what(), std::nullopt);
    answer["error"]["where"] = difference_json(error.where());
    exchange->answer(json_answer(answer, 409));
  }
}

void answer_reload(const AdminActions& actions, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = nlohmann::json::object();
  if (!exchange->request.message.body().empty()) body = read_json_body(*exchange);
  if (!body.is_object()) fail("the body must be an object or empty, {{\"verify_steps\": 100}}");
  for (const auto& [field, unused] : body.items()) {
    if (field != "verify_steps") fail("unknown field '{}'; the only one is verify_steps", field);
  }
  exchange->answer(json_answer({{"swaps", actions.reload(exchange->request.peer, read_options(body))}}));
}

void answer_parts(const Models& models, const std::shared_ptr<Exchange>& exchange) {
  Json list = Json::array();
  for (const ServedModelRef& model : models.list()) {
    list.push_back({{"name", model->name},
                    {"system_fingerprint", model->service.info().system_fingerprint},
                    {"parts", parts_json(*model)}});
  }
  exchange->answer(json_answer({{"models", std::move(list)}}));
}

}  // namespace

void add_admin_routes(Router& router, const Models& models, AdminEvents& events, AdminActions actions) {
  const auto add = [&](const char* method, const char* path, Route::Cost cost, auto handle) {
    router.add(
        {.method = method, .path = path, .access = Route::Access::kAdmin, .cost = cost, .handle = std::move(handle)});
  };
  const auto shared_actions = std::make_shared<const AdminActions>(std::move(actions));
  add("POST", "/admin/swap", Route::Cost::kWait,
      [&models, &events](const auto& exchange) { answer_swap(models, events, exchange); });
  add("POST", "/admin/reload", Route::Cost::kWait,
      [shared_actions](const auto& exchange) { answer_reload(*shared_actions, exchange); });
  add("GET", "/admin/parts", Route::Cost::kCheap, [&models](const auto& exchange) { answer_parts(models, exchange); });
  add("GET", "/admin/events", Route::Cost::kCheap, [&events](const auto& exchange) {
    exchange->answer({.content_type = "application/x-ndjson", .body = events.lines()});
  });
  add("POST", "/admin/drain", Route::Cost::kCheap, [&events, shared_actions](const auto& exchange) {
    events.add({{"event", "drain requested"}, {"by", exchange->request.peer}, {"request", exchange->request.id}});
    exchange->answer(json_answer({{"status", "draining"}}));
    shared_actions->drain();
  });
}

}  // namespace mortise
