// mortise ctl: lets an operator control a running server over HTTP.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/http_client.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "pipeline/part_change.hpp"
#include "server/api_keys.hpp"

namespace mortise {
namespace {

struct CtlOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string ca_file;  // for https
  std::string key_file;
  std::string model;               // for swap; empty: the server's first model
  std::vector<std::string> words;  // for swap: KEY PLUGIN {options}
  std::int32_t verify_steps = 0;   // for swap and reload
  std::optional<bool> fallback;    // for swap
};

std::string admin_key(const CtlOptions& options) {
  if (!options.key_file.empty()) return read_api_keys(options.key_file).front();
  return environment::read(environment::kAdminKey).value_or("");
}

// Returns the message in an error's body, if it has OpenAI's form; otherwise the body.
std::string error_text(const std::string& body) {
  const std::optional<nlohmann::json> json = find_json(body);
  if (!json || !json->is_object() || !json->contains("error")) return body;
  const nlohmann::json& error = json->at("error");
  return error.is_object() && error.contains("message") && error["message"].is_string()
             ? error["message"].get<std::string>()
             : body;
}

// Sends a request and prints the answer. Throws an Error with the server's message if the server refuses it.
void ask(const CtlOptions& options, const char* method, const std::string& path, const std::string& body = "") {
  const HttpReply reply = ask_http({options.url, options.ca_file, method, path, admin_key(options), body});
  if (reply.status != 200) {
    const ErrorCode code = reply.status == 503 ? ErrorCode::kUnavailable : ErrorCode::kInvalid;
    fail(code, "{}{}: {} ({})", options.url, path, error_text(reply.body), reply.status);
  }
  const std::optional<nlohmann::json> json = find_json(reply.body);
  const bool is_lines = path == "/admin/events";
  std::cout << (json && !is_lines ? json->dump(2) + "\n" : reply.body) << std::flush;
}

void swap(const CtlOptions& options) {
  std::string text;
  for (const std::string& word : options.words) text += (text.empty() ? "" : " ") + word;
  const PartChange change = parse_part_change(text);
  nlohmann::json body = {{"part", change.key}, {"options", change.options}};
  if (!change.plugin.empty()) body["plugin"] = change.plugin;
  if (!options.model.empty()) body["model"] = options.model;
  if (options.verify_steps > 0) body["verify_steps"] = options.verify_steps;
  if (options.fallback) body["fallback"] = *options.fallback;
  ask(options, "POST", "/admin/swap", body.dump());
}

}  // namespace

void add_ctl_command(CLI::App& app) {
  CLI::App* ctl = app.add_subcommand("ctl", "ask a running server, or change its parts");
  const auto options = std::make_shared<CtlOptions>();
  ctl->add_option("--url", options->url, "of the server, http or https")->capture_default_str();
  ctl->add_option("--cacert", options->ca_file,
                  "PEM file of the certificate authorities to trust for https (default: the system's)");
  ctl->add_option("--admin-key-file", options->key_file, "file whose first key is sent (default: $MORTISE_ADMIN_KEY)");
  ctl->require_subcommand(1);
  ctl->fallthrough();
  CLI::App* const change = ctl->add_subcommand("swap", "replace a part: swap attention cascade '{block_size = 16}'");
  change->add_option("change", options->words, "KEY PLUGIN {option = value}, as in a pipeline script")->required();
  change->add_option("--model", options->model, "which of the server's models (default: the first)");
  const auto add_verify_steps = [options](CLI::App& command) {
    command
        .add_option("--verify-steps", options->verify_steps,
                    "number of steps in which the new parts are first compared with the serving parts (default: none)")
        ->check(CLI::NonNegativeNumber);
  };
  add_verify_steps(*change);
  change->add_flag(
      "--fallback,!--no-fallback", options->fallback,
      "whether the current part is restored if the new one fails later (default: only for schedulers and proposers)");
  change->callback([options] { swap(*options); });
  CLI::App* const reload = ctl->add_subcommand("reload", "read the script again, as SIGHUP does");
  add_verify_steps(*reload);
  reload->callback([options] {
    const nlohmann::json body = {{"verify_steps", options->verify_steps}};
    ask(*options, "POST", "/admin/reload", body.dump());
  });
  struct Question {
    const char *name, *path, *text;
    const char* method = "GET";
  };
  constexpr Question kQuestions[] = {
      {"parts", "/admin/parts", "show the serving parts, with the hashes of their files"},
      {"events", "/admin/events", "show the latest swaps, refusals, drains and takeovers, one line of JSON each"},
      {"stats", "/status", "what runs, and how much"},
      {"health", "/health", "show whether the server can serve"},
      {"drain", "/admin/drain", "end the server when the running requests have ended, as SIGTERM does", "POST"}};
  for (const Question& question : kQuestions) {
    ctl->add_subcommand(question.name, question.text)->callback([options, question] {
      ask(*options, question.method, question.path);
    });
  }
}

}  // namespace mortise
