// runtime/server/routes.hpp: fills a router: a function for each file *_routes.cpp. `models` outlives the router.
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

// Completions, chat, scores, and their tokens at .../render. `timeout`: a request's deadline; 0: none.
void add_answer_routes(Router& router, const Models& models, std::chrono::seconds timeout);
// /v1/models, and one by its name.
void add_model_routes(Router& router, const Models& models);
// /tokenize, /detokenize, /tokenizer_info, as vLLM has them.
void add_token_routes(Router& router, const Models& models);
// /metrics: what `answers` counted, and the engines' figures. `draining` may be called on any thread.
void add_metrics_route(Router& router, const Models& models, const prometheus::Registry& answers,
                       std::function<bool()> draining);
// /health (the process can serve), /ready (it takes requests), /version, /status (what runs, for the page).
// `draining` may be called on any thread.
void add_status_routes(Router& router, const Models& models, std::function<bool()> draining);
// What an operator's requests set off.
struct AdminActions {
  // Reads the script again and swaps what differs, for `by`; the events of the swaps. Throws an Error. [any thread that
  // may wait]
  std::function<nlohmann::ordered_json(const std::string& by, const SwapOptions& options)> reload;
  std::function<void()> drain;  // as SIGTERM; returns at once. [any thread]
};
// /admin/swap, /admin/parts, /admin/events, /admin/reload, /admin/drain. `events` outlives the router.
void add_admin_routes(Router& router, const Models& models, AdminEvents& events, AdminActions actions);
// The page at /, for people: it chats and shows how the server is.
void add_page_routes(Router& router);

}  // namespace mortise
