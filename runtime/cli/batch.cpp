// mortise batch: OpenAI's batch file format.
//   in   {"custom_id", "method": "POST", "url", "body": {...}}
//        url: "/v1/completions" | "/v1/chat/completions" | "/v1/score"
//   out  {"id", "custom_id", "response": {"status_code", "request_id", "body"}, "error"}
//        in the order of the input
//
// A custom_id may occur twice. The results are told apart by their order, and by ids that are made from a line's number
// and content.
#include <nlohmann/json.hpp>

#include "cli/batch_line.hpp"
#include "cli/commands.hpp"
#include "cli/json_lines_command.hpp"
#include "error.hpp"
#include "jsonl/output_lines.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

constexpr const char* kIdPrefix = "batch_req_";

std::string result_line(const std::string& id, const Json& custom_id, OrderedJson response, OrderedJson error) {
  return dump_line(
      {{"id", id}, {"custom_id", custom_id}, {"response", std::move(response)}, {"error", std::move(error)}});
}

std::string result_begin(const InputLine& line, std::size_t) {
  return fmt::format(R"({{"id":"{}{}","custom_id":)", kIdPrefix, LineIdentity(line).hex);
}

void read_line(const InputLine& line, std::size_t max_line_bytes, LineRequest& request) {
  Json json = parse_json_line(line, max_line_bytes);
  if (!json.is_object()) fail("expected a JSON object with custom_id, method, url and body");
  const Json custom_id = json.value("custom_id", Json());
  if (custom_id.is_structured()) fail_type("custom_id", "a string", custom_id);
  request.id = custom_id;
  const Json method = json.value("method", Json("POST"));
  if (method != "POST") fail_type("method", "\"POST\"", method);
  const auto url = json.find("url");
  if (url == json.end())
    fail("url is missing; expected /v1/completions, /v1/chat/completions, /v1/score or /v1/decisions");
  if (!url->is_string()) fail_type("url", "a string", *url);
  request.url = url->get<std::string>();
  const auto body = json.find("body");
  if (body == json.end()) fail("body is missing");
  if (!body->is_object()) fail_type("body", "a JSON object", *body);
  if (body->value("stream", Json(false)) == true) {
    fail("stream is true, but a batch writes whole answers; leave it out");
  }
  request.body = std::move(*body);
}

// Replaces an answer that is too long for the file.
Answer too_long(std::size_t bytes) {
  return error_answer(
      Error(fmt::format("the answer is a line of {} bytes, and the limit is {}: ask for fewer "
                        "log probabilities, or send several bodies",
                        bytes, kMaxOutputLineBytes)));
}

}  // namespace

std::size_t start_batch_line(const LinesRun& run, const InputLine& line, const FinishLine& finish,
                             const std::string& client_id) {
  const LineIdentity identity(line);
  const std::string id = kIdPrefix + identity.hex;
  LineRequest request;
  if (const auto mistake = read_request(run, line, read_line, request)) {
    const std::string message = fmt::format("line {}: {}", line.number, *mistake);
    const OrderedJson why = {{"code", "invalid_line"}, {"message", message}, {"line", line.number}};
    finish({result_line(id, request.id, nullptr, why), true, 0});
    return 0;
  }
  Json& body = request.body;
  if (!body.contains("seed") || body["seed"].is_null()) body["seed"] = identity.seed;
  const auto answered = [id, custom_id = request.id, finish](const Answer& answer) {
    const auto text_of = [&](const Answer& reply) {
      OrderedJson response = {{"status_code", reply.status}, {"request_id", id}, {"body", reply.body}};
      return result_line(id, custom_id, std::move(response), nullptr);
    };
    std::string text = text_of(answer);
    if (answer.status != 200) return finish({std::move(text), true, 0});
    if (text.size() > kMaxOutputLineBytes) return finish({text_of(too_long(text.size())), true, 0});
    finish({std::move(text), false, answer.body["usage"]["total_tokens"].get<std::uint64_t>()});
  };
  return run_request(run, request, answered,
                     {.id = identity.hex, .created = run.created, .schedule_figures = false, .client_id = client_id});
}

namespace {

std::size_t start(const LinesRun& run, const InputLine& line, const FinishLine& finish) {
  return start_batch_line(run, line, finish, "");
}

LinesCommand::Result read_result(const Json& result) {
  LinesCommand::Result read;
  const Json& response = result.at("response");
  read.failed = response.is_null() || response.at("status_code") != 200;
  if (read.failed) return read;
  const Json& body = response.at("body");
  if (body.contains("created")) read.created = body.at("created").get<std::int64_t>();  // decisions have no time
  read.system_fingerprint = body.at("system_fingerprint").get<std::string>();
  return read;
}

Json body_of(const InputLine& line, std::size_t max_line_bytes) {
  return parse_json_line(line, max_line_bytes).at("body");
}

}  // namespace

void add_batch_command(CLI::App& app) {
  add_lines_command(
      app, {"batch", "run a file of requests in OpenAI's batch format", start, result_begin, read_result, body_of});
}

}  // namespace mortise
