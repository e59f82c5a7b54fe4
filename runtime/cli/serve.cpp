// mortise serve: the OpenAI-compatible server.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <iostream>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/commands.hpp"
#include "cli/kv_event_publishers.hpp"
#include "cli/served_models.hpp"
#include "cli/service_manager.hpp"
#include "cli/session.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "server/listen.hpp"
#include "server/metrics.hpp"
#include "server/routes.hpp"
#include "server/server.hpp"
#include "server/swaps.hpp"
#include "server/takeover.hpp"
#include "server/takeover_offer.hpp"

namespace mortise {
namespace {

struct ServeOptions {
  SessionOptions session;
  ServerOptions server;
  KvEventOptions kv_events;  // without an endpoint nothing is published
  std::string api_key_file, admin_key_file;
  std::size_t max_waiting = 1024;
  std::string takeover_socket;  // empty: no process can take over from this one
  bool takes_over = false;
};

// Describes that a part has failed, and whether the previous part could be restored.
nlohmann::ordered_json fallback_event(const std::string& model, const FallbackNews& news) {
  nlohmann::ordered_json event = {{"event", news.error.empty() ? "fallback" : "fallback failed"},
                                  {"model", model},
                                  {"part", kind_name(news.kind)},
                                  {"why", news.why},
                                  {"failed", parts_json(served_parts(news.failed))},
                                  {"serving", parts_json(served_parts(news.serving))}};
  if (!news.error.empty()) {
    event["error"] = news.error;
    return event;
  }
  event.update({{"generation", news.figures.generation},
                {"pause_s", news.figures.pause_s},
                {"largest_gap_s", news.figures.largest_gap_s},
                {"recomputed_sequences", news.figures.num_recomputed}});
  return event;
}

// Drains all engines at the same time, until the deadline.
void drain_all(const Models& models, std::chrono::steady_clock::time_point deadline, AdminEvents& events) {
  using Seconds = std::chrono::duration<double>;
  const auto begin = std::chrono::steady_clock::now();
  events.add({{"event", "drain"}, {"pid", ::getpid()}, {"deadline_s", Seconds(deadline - begin).count()}});
  std::atomic<bool> any_cut = false;
  std::vector<std::thread> threads;
  const auto drain = [&](const ServedModelRef& model) {
    threads.emplace_back([model, &any_cut, deadline] {
      if (model->engine.drain(deadline)) return;
      any_cut = true;
      spdlog::warn("{}: requests were cut off at the end of the drain", model->name);
    });
  };
  std::ranges::for_each(models.list(), drain);
  std::ranges::for_each(models.leaving(), drain);
  for (std::thread& thread : threads) thread.join();
  events.add({{"event", "drained"},
              {"pid", ::getpid()},
              {"duration_s", Seconds(std::chrono::steady_clock::now() - begin).count()},
              {"cut_off", any_cut.load()}});
}

// Returns the keys in a file ("": no file) and in an environment variable.
std::vector<std::string> keys_of(const std::string& file, const char* variable) {
  std::vector<std::string> keys;
  if (!file.empty()) keys = read_api_keys(file);
  const std::optional<std::string> key = environment::read(variable);
  if (!key) return keys;
  check_api_key(*key, variable);
  keys.push_back(*key);
  return keys;
}

// Asks the running server for its listening socket; nullopt: there is no server, and this process must listen itself.
// Called after the model was loaded, so that a start that fails to load one has changed nothing.
std::optional<Takeover> take_over(const ServeOptions& options) {
  if (!options.takes_over) return std::nullopt;
  std::optional<Takeover> takeover = Takeover::ask(options.takeover_socket);
  if (!takeover) spdlog::warn("no server runs at {}; this process listens by itself", options.takeover_socket);
  return takeover;
}

FileDescriptor listening_socket(std::optional<Takeover>& takeover, const ServerOptions& options) {
  if (!takeover) return listen_at(options.host, options.port);
  FileDescriptor listener = takeover->take_listener();
  check_listens_at(listener.get(), options.host, options.port);
  return listener;
}

// Reads the script again, swaps the parts that differ, and records events. Runs one reload at a time.
class Reloading {
 public:
  Reloading(Session& session, ServedModels& models, AdminEvents& events)
      : session_(session), models_(models), events_(events) {}

  // Returns the events of the swaps. Throws an Error if the script cannot be used.
  nlohmann::ordered_json run(const std::string& by, const SwapOptions& options = {}) {
    const std::lock_guard lock(mutex_);
    auto swaps = nlohmann::ordered_json::array();
    const nlohmann::ordered_json what = {{"by", by}, {"part", "script"}};
    try {
      session_.reload([&](OpenPipeline& pipeline, const Session::MakeWanted& wanted) {
        const ServedModelRef model = models_.find(pipeline);
        if (model == nullptr) return;  // another model has replaced it meanwhile
        const auto swap = [&] { return models_.swap(pipeline, wanted(), options); };
        try {
          swaps.push_back(swap_with_event(*model, what, events_, swap));
        } catch (const Error& error) {  // recorded in events_; the other models continue
          swaps.push_back({{"event", "swap refused"}, {"model", model->name}, {"error", error.what()}});
          if (const auto* const found = dynamic_cast<const DifferenceError*>(&error)) {
            swaps.back()["where"] = difference_json(found->where());
          }
        }
      });
    } catch (const Error& error) {
      events_.add({{"event", "reload refused"}, {"by", by}, {"error", error.what()}});
      throw;
    }
    return swaps;
  }

 private:
  std::mutex mutex_;
  Session& session_;
  ServedModels& models_;
  AdminEvents& events_;
};

// Serves until a signal comes, or another process takes over.
void run_server(Server& server, const ServeOptions& options, const Models& models, KvEventPublishers& kv_events,
                AdminEvents& events, Reloading& reloading, std::optional<Takeover> takeover,
                const std::string& address) {
  std::optional<TakeoverSocket> socket;
  if (!takeover && !options.takeover_socket.empty()) socket.emplace(options.takeover_socket);
  const std::string url = server.url();
  std::optional<TakeoverOffer> offer;
  const auto add_event = [&events](const nlohmann::ordered_json& event) { events.add(event); };
  const auto hand_over = [&] {
    server.hand_over();
    kv_events.stop();
  };
  const auto serving = [&] {
    if (takeover) {
      add_event(takeover->serving(address));
      socket.emplace(takeover->take_socket());  // from now on the socket and its file belong to this process
    }
    kv_events.listen();
    if (socket) {
      offer.emplace(std::move(*socket), takeover ? takeover->generation() : 1,
                    TakeoverOffer::Server{[&server] { return server.listener(); }, hand_over, add_event});
    }
    std::cout << url << std::endl;  // for scripts that passed --port 0
    notify_service_manager("READY=1");
  };
  const auto reload = [&reloading] {
    try {
      reloading.run("SIGHUP");
    } catch (const std::exception& error) {
      spdlog::error("the script could not be read again: {}; the server continues as it was", error.what());
    }
  };
  server.run(
      {.drain = [&](auto deadline) { drain_all(models, deadline, events); }, .serving = serving, .reload = reload});
}

void serve(ServeOptions options) {
  if (!environment::read(environment::kLog)) spdlog::set_level(spdlog::level::info);
  if (!options.takeover_socket.empty()) check_takeover_path(options.takeover_socket);
  options.server.api_keys = keys_of(options.api_key_file, environment::kApiKey);
  options.server.admin_keys = keys_of(options.admin_key_file, environment::kAdminKey);
  options.session.queue = {.max_requests = options.max_waiting};
  options.session.populate_kv = true;
  prometheus::Registry registry;
  std::deque<AnswerMetrics> metrics;
  options.session.observer = [&](const std::string& model) { return &metrics.emplace_back(registry, model); };
  HttpAnswers http_answers(registry);
  // Declared before the session, because engines answer requests until they end.
  std::optional<Server> server;
  using PortsInUse = KvEventPublishers::PortsInUse;
  KvEventPublishers kv_events(options.kv_events, options.takes_over ? PortsInUse::kWait : PortsInUse::kFail);
  options.session.kv_observer = [&](const auto& model, const auto& limits) { return kv_events.add(model, limits); };
  AdminEvents events;
  options.session.fallback_observer = [&events](const OpenPipeline& pipeline, const FallbackNews& news) {
    events.add(fallback_event(pipeline.service.info().model, news));
  };
  Session session(options.session);
  ServedModels served(session, kv_events, options.max_waiting);
  const Models& models = served.models();
  Router router;
  add_answer_routes(router, models, options.server.request_timeout);
  const auto draining = [&server] { return server->draining(); };  // only called while the server exists
  add_metrics_route(router, models, registry, draining);
  add_model_routes(router, models);
  add_token_routes(router, models);
  add_status_routes(router, models, draining);
  add_page_routes(router);
  Reloading reloading(session, served, events);
  add_admin_routes(
      router, models, events,
      {.reload = [&](const std::string& by, const SwapOptions& wishes) { return reloading.run(by, wishes); },
       .drain = [] { ::kill(::getpid(), SIGTERM); }});
  std::optional<Takeover> takeover = take_over(options);
  FileDescriptor listener = listening_socket(takeover, options.server);
  const std::string address = listening_address(listener.get());
  server.emplace(options.server, std::move(router), http_answers, std::move(listener));
  run_server(*server, options, models, kv_events, events, reloading, std::move(takeover), address);
  session.close();
}

}  // namespace

void add_serve_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("serve", "answer OpenAI's API over HTTP");
  const auto options = std::make_shared<ServeOptions>();
  ServerOptions& server = options->server;
  add_session_options(*command, options->session);
  add_record_option(*command, options->session);
  command->add_option("folders", options->session.folders, "further checkpoints, served beside the first");
  command->add_option("--host", server.host, "address to listen at; 0.0.0.0 for all addresses of the machine")
      ->capture_default_str();
  command->add_option("--port", server.port, "port to listen at, 0 for a free one; the url is printed")
      ->capture_default_str();
  command->add_option(
      "--api-key-file", options->api_key_file,
      "file of API keys, one on each line, one of which each request must send; $MORTISE_API_KEY is added to them");
  command->add_option("--admin-key-file", options->admin_key_file,
                      "file of admin keys, one on each line, for the urls below /admin; $MORTISE_ADMIN_KEY is added to "
                      "them; without any key only this machine may use these urls");
  CLI::Option* certificate =
      command->add_option("--tls-certificate", server.tls_certificate, "certificate chain in PEM form: serve HTTPS");
  CLI::Option* key = command->add_option("--tls-key", server.tls_key, "private key of the certificate in PEM form");
  certificate->needs(key);
  key->needs(certificate);
  command->add_option("--cors", server.cors_origins, "origin whose pages may read answers, * for all; repeatable");
  const auto seconds = [&](const char* name, std::chrono::seconds& value, int least, const char* text) {
    command
        ->add_option_function<std::int64_t>(
            name, [&value](std::int64_t count) { value = std::chrono::seconds(count); }, text)
        ->check(CLI::Range(least, 1'000'000))
        ->default_str(std::to_string(value.count()));
  };
  seconds("--drain-seconds", server.drain, 0, "seconds from SIGTERM until running requests are cut off");
  seconds("--request-timeout", server.request_timeout, 0, "seconds after which a request is aborted, 0 for never");
  seconds("--idle-timeout", server.idle_timeout, 1, "seconds that a connection stays open without a request");
  seconds("--header-timeout", server.header_timeout, 1, "seconds that the headers of a request may take");
  seconds("--body-timeout", server.body_timeout, 1, "seconds that the body of a request may take");
  seconds("--write-timeout", server.write_timeout, 1, "seconds that a client may leave its answer unread");
  command
      ->add_option("--max-connections", server.max_connections,
                   "maximum number of connections at a time; further connections get 503")
      ->capture_default_str();
  command
      ->add_option("--max-waiting", options->max_waiting,
                   "maximum number of requests that wait for their first step; further requests get 429")
      ->capture_default_str();
  command->add_option("--max-header", server.max_header_bytes, "maximum size of a request's headers in bytes")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(1 << 10, 60 << 10))  // Beast accepts no header field of 64 KiB
      ->capture_default_str();
  command->add_option("--max-body", server.max_body_bytes, "maximum size of a request's body in bytes")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  CLI::Option* takeover_socket =
      command->add_option("--takeover-socket", options->takeover_socket,
                          "path of a Unix socket at which another mortise serve may take over from this one");
  command
      ->add_flag("--takeover", options->takes_over,
                 "load the models, then take the listening socket of the server at --takeover-socket, which drains and "
                 "ends; if no server runs there, listen as without it")
      ->needs(takeover_socket);
  CLI::Option* kv_events = command->add_option("--kv-events", options->kv_events.endpoint,
                                               "ZeroMQ endpoint at which to publish which KV blocks are cached, for "
                                               "routers: tcp://127.0.0.1:5557");
  command
      ->add_option("--kv-events-replay", options->kv_events.replay,
                   "ZeroMQ endpoint at which routers can ask for events that they missed")
      ->needs(kv_events);
  command->add_option("--kv-events-topic", options->kv_events.topic, "topic of the events (default: the empty one)")
      ->needs(kv_events);
  command->callback([options] { serve(*options); });
}

}  // namespace mortise
