// runtime/server/routes.hpp: adds routes to a router; one function for each file *_routes.cpp. `models` outlives the
// router.
#pragma once

#include <prometheus/registry.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "server/admin_events.hpp"
#include "server/models.hpp"
#include "server/router.hpp"

namespace mortise {

// Completions, chat, scores and decisions, and .../render, which returns their tokens. `timeout`: deadline of requests
// that name none; 0: none.
void add_answer_routes(Router& router, const Models& models, std::chrono::seconds timeout);
// Adds /v1/models and /v1/models/NAME.
void add_model_routes(Router& router, const Models& models);
// Adds /tokenize, /detokenize, /tokenizer_info, in vLLM's form.
void add_token_routes(Router& router, const Models& models);
// Adds /metrics: the counts in `answers` and the engines' figures. `draining` is called on any thread.
void add_metrics_route(Router& router, const Models& models, const prometheus::Registry& answers,
                       std::function<bool()> draining);
// /health (the process can serve), /ready (it takes requests), /version, /status (the state for the page). `draining`
// is called on any thread.
void add_status_routes(Router& router, const Models& models, std::function<bool()> draining);
// Actions that admin requests start.
struct AdminActions {
  // Reads the script again and swaps the parts that differ. `by` says who asked. Returns the events of the swaps.
  // Throws an Error. [any thread that may wait]
  std::function<nlohmann::ordered_json(const std::string& by, const SwapOptions& options)> reload;
  std::function<void()> drain;  // like SIGTERM; returns at once [any thread]
};
// Adds /admin/swap, /admin/parts, /admin/events, /admin/reload, /admin/drain. `events` outlives the router.
void add_admin_routes(Router& router, const Models& models, AdminEvents& events, AdminActions actions);
// Adds the page at /, for people: a chat, and the state of the server.
void add_page_routes(Router& router);

}  // namespace mortise
