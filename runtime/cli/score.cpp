// mortise score: log probabilities of completions given prompts.
//   in   {"prompt": text | [ids], "completions": [text | [ids], ...]}, optional "id"
//   out  {"id", "index", "completions": [{"logprob", "token_ids", "token_logprobs", "ranks", "is_greedy"}]}; index is
//   the
//        line of the input counted from 0; a bad line gives {"id", "index", "error": {"message", "line"}}
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_lines_command.hpp"
#include "error.hpp"

namespace mortise {
namespace {

std::future<LineResult> start_line(Session& session, std::size_t number, const std::string& text) {
  const auto promise = std::make_shared<std::promise<LineResult>>();
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const nlohmann::json id = json.is_object() ? json.value("id", nlohmann::json()) : nlohmann::json();
  const auto finish = [=](const char* key, nlohmann::ordered_json value, bool failed) {
    nlohmann::ordered_json line = {{"id", id}, {"index", number - 1}};
    line[key] = std::move(value);
    promise->set_value({line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), failed});
  };
  const auto refuse = [=](const nlohmann::ordered_json& message) {
    finish("error", {{"message", message}, {"line", number}}, true);
  };
  if (json.is_discarded()) {
    refuse("line " + std::to_string(number) + ": not JSON");
    return promise->get_future();
  }
  try {
    session.pipeline_for(json).service.handle("/v1/score", json, [=](Answer answer) {
      if (answer.status == 200) return finish("completions", std::move(answer.body["completions"]), false);
      refuse("line " + std::to_string(number) + ": " + answer.body["error"]["message"].get<std::string>());
    });
  } catch (const Error& error) {
    refuse("line " + std::to_string(number) + ": " + error.what());
  }
  return promise->get_future();
}

}  // namespace

void add_score_command(CLI::App& app) {
  add_json_lines_command(app, "score", "log probabilities of completions given prompts", start_line);
}

}  // namespace mortise
