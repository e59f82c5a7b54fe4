// runtime/cli/json_lines_command.hpp: what batch and score share: files in and out, order, progress, and going on where
// an earlier run ended. A line of input has one line of output; results depend on the line and its number alone, so
// that a run in pieces writes the same bytes as one without a break.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/session.hpp"
#include "jsonl/json_line.hpp"
#include "jsonl/ordered_lines.hpp"
#include "openai/known_fields.hpp"
#include "openai/service.hpp"

namespace mortise {

// What the answers of a run have in common.
struct LinesRun {
  Session& session;
  std::int64_t created;  // when the requests were: the input's time of modification
  std::size_t max_line_bytes;
  UnknownFieldLog& unknown_fields;
};

// One of the commands. All functions but `start` work without a model.
struct LinesCommand {
  const char* name;
  const char* description;
  // As StartLine.
  std::function<std::size_t(const LinesRun&, const InputLine&, FinishLine)> start;
  // How the result of a line begins, whatever else is in it: tells results of this line from all others.
  std::function<std::string(const InputLine&, std::size_t max_line_bytes)> result_begin;
  // What an earlier run wrote about a line.
  struct Result {
    bool failed = false;
    std::optional<std::int64_t> created;
    std::optional<std::string> system_fingerprint;
  };
  std::function<Result(const nlohmann::json& result)> read_result;
  // The body of a line's request, to find its pipeline.
  std::function<nlohmann::json(const InputLine&, std::size_t max_line_bytes)> body;
};

// The request of a line.
struct LineRequest {
  nlohmann::json id;  // as the line names itself; null if it does not
  std::string url;
  nlohmann::json body;
};

// Fills the request as far as it comes, so that the result of a bad line has its id too. Throws an Error that says what
// is wrong with the line.
using ReadLine = void (*)(const InputLine& line, std::size_t max_line_bytes, LineRequest& request);

// For `start`: reads a line, and sees to the pipeline of its request. Returns what is wrong with the line, if something
// is: a wrong name is the line's fault, a pipeline that does not open is not.
std::optional<std::string> read_request(const LinesRun& run, const InputLine& line, ReadLine read,
                                        LineRequest& request);

// For `start`: runs a request that was read; `done` is called once. Returns how many sequences it takes.
std::size_t run_request(const LinesRun& run, const LineRequest& request, std::function<void(Answer)> done,
                        const AnswerStamp& stamp);

void add_lines_command(CLI::App& app, const LinesCommand& command);

}  // namespace mortise
