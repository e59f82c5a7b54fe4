// mortise batch: OpenAI's batch file format.
//   in   {"custom_id", "method": "POST", "url": "/v1/completions" | "/v1/chat/completions" | "/v1/score", "body":
//   {...}} out  {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}, in the order of the
//   input
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_lines_command.hpp"
#include "error.hpp"

namespace mortise {
namespace {

std::string output_line(std::size_t number, const nlohmann::json& custom_id, const Answer* answer,
                        const std::string& error) {
  const std::string id = "batch_req_" + std::to_string(number);
  nlohmann::ordered_json line = {{"id", id}, {"custom_id", custom_id}, {"response", nullptr}, {"error", nullptr}};
  if (answer != nullptr) {
    line["response"] = {{"status_code", answer->status}, {"request_id", id}, {"body", answer->body}};
  }
  if (!error.empty()) {
    line["error"] = {{"code", "invalid_line"}, {"message", error}, {"line", number}};
  }
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The fields of a line, checked.
struct BatchLine {
  nlohmann::json custom_id;
  std::string url;
  nlohmann::json body;
};

BatchLine read_line(const std::string& text) {
  BatchLine line;
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) fail("expected a JSON object with custom_id, method, url and body");
  line.custom_id = json.value("custom_id", nlohmann::json());
  if (const auto method = json.value("method", nlohmann::json("POST")); method != "POST") {
    fail("method is {}; only \"POST\" is known", method.dump());
  }
  const auto url = json.value("url", nlohmann::json());
  if (!url.is_string()) fail("url is missing; it is /v1/completions, /v1/chat/completions or /v1/score");
  line.url = url.get<std::string>();
  const auto body = json.find("body");
  if (body == json.end()) fail("body is missing");
  line.body = *body;
  return line;
}

std::future<LineResult> start_line(Session& session, std::size_t number, const std::string& text) {
  const auto promise = std::make_shared<std::promise<LineResult>>();
  nlohmann::json custom_id;
  const auto refuse = [&](const std::string& message) {
    promise->set_value(
        {output_line(number, custom_id, nullptr, "line " + std::to_string(number) + ": " + message), true});
  };
  try {
    BatchLine line = read_line(text);
    custom_id = line.custom_id;
    session.route(line.body);
    session.pipeline_for(line.body).service.handle(line.url, line.body, [=, id = custom_id](Answer answer) {
      promise->set_value({output_line(number, id, &answer, {}), answer.status != 200});
    });
  } catch (const Error& error) {
    refuse(error.what());
  }
  return promise->get_future();
}

}  // namespace

void add_batch_command(CLI::App& app) {
  add_json_lines_command(app, "batch", "run a file of requests in OpenAI's batch format", start_line);
}

}  // namespace mortise
