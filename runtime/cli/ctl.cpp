// mortise ctl: a client of a running server's urls for operators.
#include <CLI/CLI.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "error.hpp"
#include "json/bounded_json.hpp"
#include "pipeline/part_change.hpp"
#include "server/api_keys.hpp"

namespace mortise {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

struct CtlOptions {
  std::string url = "http://127.0.0.1:8000";
  std::string key_file;
  std::string model;               // of swap; empty: the server's first
  std::vector<std::string> words;  // of swap: KEY PLUGIN {options}
  std::optional<bool> fallback;    // of swap
};

// "http://127.0.0.1:8000" in two.
std::pair<std::string, std::string> host_and_port(const std::string& url) {
  constexpr std::string_view kScheme = "http://";
  if (!url.starts_with(kScheme)) {
    fail("--url {}: expected http://HOST:PORT; mortise ctl speaks no TLS, curl asks the same urls (docs/operations.md)",
         url);
  }
  std::string rest = url.substr(kScheme.size());
  rest.resize(std::min(rest.find('/'), rest.size()));
  const std::size_t colon = rest.ends_with(']') ? std::string::npos : rest.rfind(':');  // others are the address's
  std::string host = rest.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return {host, colon == std::string::npos ? "80" : rest.substr(colon + 1)};
}

std::string admin_key(const CtlOptions& options) {
  if (!options.key_file.empty()) return read_api_keys(options.key_file).front();
  const char* key = std::getenv("MORTISE_ADMIN_KEY");
  return key == nullptr ? "" : key;
}

// What the server says of an answer that is none, in OpenAI's shape, or as it is.
std::string error_text(const std::string& body) {
  const std::optional<nlohmann::json> json = find_json(body);
  if (!json || !json->is_object() || !json->contains("error")) return body;
  const nlohmann::json& error = json->at("error");
  return error.is_object() && error.contains("message") && error["message"].is_string()
             ? error["message"].get<std::string>()
             : body;
}

// Prints the answer; an error of the server is thrown as one of ours.
void ask(const CtlOptions& options, http::verb method, const std::string& path, const std::string& body = "") {
  const auto [host, port] = host_and_port(options.url);
  asio::io_context io;
  boost::system::error_code error;
  const auto found = asio::ip::tcp::resolver(io).resolve(host, port, error);
  asio::ip::tcp::socket socket(io);
  if (!error) asio::connect(socket, found, error);
  if (error)
    fail(ErrorCode::kUnavailable, "{} cannot be reached: {}; is the server running?", options.url, error.message());
  http::request<http::string_body> request(method, path, 11);
  request.set(http::field::host, host + ":" + port);
  request.set(http::field::content_type, "application/json");
  if (const std::string key = admin_key(options); !key.empty()) {
    request.set(http::field::authorization, "Bearer " + key);
  }
  request.body() = body;
  if (method == http::verb::post) request.prepare_payload();
  http::write(socket, request, error);
  boost::beast::flat_buffer buffer;
  http::response<http::string_body> response;
  if (!error) http::read(socket, buffer, response, error);
  if (error) fail(ErrorCode::kUnavailable, "{} has not answered: {}", options.url, error.message());
  if (response.result() != http::status::ok) {
    const ErrorCode code = response.result_int() == 503 ? ErrorCode::kUnavailable : ErrorCode::kInvalid;
    fail(code, "{}{}: {} ({})", options.url, path, error_text(response.body()), response.result_int());
  }
  const std::optional<nlohmann::json> json = find_json(response.body());
  const bool is_lines = path == "/admin/events";
  std::cout << (json && !is_lines ? json->dump(2) + "\n" : response.body()) << std::flush;
}

void swap(const CtlOptions& options) {
  std::string text;
  for (const std::string& word : options.words) text += (text.empty() ? "" : " ") + word;
  const PartChange change = parse_part_change(text);
  nlohmann::json body = {{"part", change.key}, {"options", change.options}};
  if (!change.plugin.empty()) body["plugin"] = change.plugin;
  if (!options.model.empty()) body["model"] = options.model;
  if (options.fallback) body["fallback"] = *options.fallback;
  ask(options, http::verb::post, "/admin/swap", body.dump());
}

}  // namespace

void add_ctl_command(CLI::App& app) {
  CLI::App* ctl = app.add_subcommand("ctl", "ask a running server, or change its parts");
  const auto options = std::make_shared<CtlOptions>();
  ctl->add_option("--url", options->url, "of the server")->capture_default_str();
  ctl->add_option("--admin-key-file", options->key_file, "file whose first key is sent (default: $MORTISE_ADMIN_KEY)");
  ctl->require_subcommand(1);
  ctl->fallthrough();
  CLI::App* const change =
      ctl->add_subcommand("swap", "put another part in the place of one: swap attention cascade '{block_size = 16}'");
  change->add_option("change", options->words, "KEY PLUGIN {option = value}, as in a pipeline script")->required();
  change->add_option("--model", options->model, "which of the server's models (default: the first)");
  change->add_flag("--fallback,!--no-fallback", options->fallback,
                   "whether the part that serves now comes back if the new one fails later (default: schedulers and "
                   "proposers alone)");
  change->callback([options] { swap(*options); });
  struct Question {
    const char *name, *path, *text;
    http::verb method = http::verb::get;
  };
  constexpr Question kQuestions[] = {
      {"parts", "/admin/parts", "the parts that serve, with the hashes of their files"},
      {"events", "/admin/events", "the last swaps and refusals, a line of JSON each"},
      {"stats", "/status", "what runs, and how much"},
      {"health", "/health", "whether the server can serve"},
      {"reload", "/admin/reload", "have the script read again, as SIGHUP does", http::verb::post},
      {"drain", "/admin/drain", "end the server when what runs has ended, as SIGTERM does", http::verb::post}};
  for (const Question& question : kQuestions) {
    ctl->add_subcommand(question.name, question.text)->callback([options, question] {
      ask(*options, question.method, question.path);
    });
  }
}

}  // namespace mortise
