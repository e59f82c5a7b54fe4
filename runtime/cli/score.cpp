// mortise score: log probabilities of given completions after their prompts.
//   in   {"prompt": text | [ids], "completions": [text | [ids], ...]}, optional "id"
//   out  {"id", "index", "request_id", "completions": [COMPLETION, ...], "system_fingerprint"}
//        COMPLETION: {"logprob", "token_ids", "token_logprobs", "ranks", "is_greedy"}
//   or   {"id", "index", "request_id", "error": {"message", "line", "status_code"}} for an invalid line
//
// index is the number of the input line, from 0; request_id is made from the line's content.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_lines_command.hpp"
#include "error.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

using Json = nlohmann::json;
using OrderedJson = nlohmann::ordered_json;

void read_line(const InputLine& line, std::size_t max_line_bytes, LineRequest& request) {
  request.url = "/v1/score";
  request.body = parse_json_line(line, max_line_bytes);
  if (!request.body.is_object()) fail("expected a JSON object with prompt and completions");
  const Json id = request.body.value("id", Json());
  if (id.is_structured()) fail_type("id", "a string or a number", id);
  request.id = id;
}

// Returns the beginning of every result of a line.
OrderedJson head(const InputLine& line, const Json& id) {
  return {{"id", id}, {"index", line.number - 1}, {"request_id", "score-" + LineIdentity(line).hex}};
}

std::string result_begin(const InputLine& line, std::size_t max_line_bytes) {
  LineRequest request;
  try {
    read_line(line, max_line_bytes, request);
  } catch (const Error&) {  // the result of the line reports it
  }
  std::string text = dump_line(head(line, request.id));
  text.back() = ',';
  return text;
}

// `status`: the status that an HTTP answer would have.
std::string error_line(OrderedJson result, std::size_t number, int status, const std::string& why) {
  result["error"] = {{"message", fmt::format("line {}: {}", number, why)}, {"line", number}, {"status_code", status}};
  return dump_line(result);
}

std::size_t start(const LinesRun& run, const InputLine& line, const FinishLine& finish) {
  LineRequest request;
  if (const auto mistake = read_request(run, line, read_line, request)) {
    finish({error_line(head(line, request.id), line.number, 400, *mistake), true, 0});
    return 0;
  }
  const auto answered = [result = head(line, request.id), number = line.number, finish](Answer answer) mutable {
    if (answer.status != 200) {
      const auto why = answer.body["error"]["message"].get<std::string>();
      return finish({error_line(result, number, answer.status, why), true, 0});
    }
    result["completions"] = std::move(answer.body["completions"]);
    result["system_fingerprint"] = std::move(answer.body["system_fingerprint"]);
    finish({dump_line(result), false, answer.body["usage"]["total_tokens"].get<std::uint64_t>()});
  };
  return run_request(run, request, answered, {std::nullopt, run.created, /*schedule_figures=*/false});
}

LinesCommand::Result read_result(const Json& result) {
  LinesCommand::Result read;
  read.failed = result.contains("error");
  if (!read.failed) read.system_fingerprint = result.at("system_fingerprint").get<std::string>();
  return read;
}

}  // namespace

void add_score_command(CLI::App& app) {
  add_lines_command(app, {"score", "log probabilities of completions given prompts", start, result_begin, read_result,
                          parse_json_line});
}

}  // namespace mortise
