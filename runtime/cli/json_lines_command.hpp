// runtime/cli/json_lines_command.hpp: the common part of batch and score: files, order, progress, and continuing an
// earlier run. Each input line has one output line. A result depends only on the line and its number, so a run in
// several pieces writes the same bytes as a run without interruption.
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

// The data that all answers of a run have in common.
struct LinesRun {
  Session& session;
  std::int64_t created;  // the time of the requests: when the input was last modified
  std::size_t max_line_bytes;
  UnknownFieldLog& unknown_fields;
};

// The functions in which the two commands differ. All except `start` work without a model.
struct LinesCommand {
  const char* name;
  const char* description;
  // Implements StartLine.
  std::function<std::size_t(const LinesRun&, const InputLine&, FinishLine)> start;
  // Returns the beginning that every result of this line has, and no result of another line.
  std::function<std::string(const InputLine&, std::size_t max_line_bytes)> result_begin;
  // A result that an earlier run wrote for a line.
  struct Result {
    bool failed = false;
    std::optional<std::int64_t> created;
    std::optional<std::string> system_fingerprint;
  };
  std::function<Result(const nlohmann::json& result)> read_result;
  // Returns the body of a line's request, which determines its pipeline.
  std::function<nlohmann::json(const InputLine&, std::size_t max_line_bytes)> body;
};

// The request of a line.
struct LineRequest {
  nlohmann::json id;  // the id in the line; null if there is none
  std::string url;
  nlohmann::json body;
};

// Fills `request` as far as the line is valid, so that the result of an invalid line has its id as well. Throws an
// Error that says what is wrong with the line.
using ReadLine = void (*)(const InputLine& line, std::size_t max_line_bytes, LineRequest& request);

// For `start`: reads a line with `read` and opens the pipeline of its request. Returns the problem with the line, if
// any: a wrong model name is the line's problem, a pipeline that does not open is not.
std::optional<std::string> read_request(const LinesRun& run, const InputLine& line, ReadLine read,
                                        LineRequest& request);

// For `start`: runs a request from read_request; `done` is called once. Returns the number of its sequences.
std::size_t run_request(const LinesRun& run, const LineRequest& request, std::function<void(Answer)> done,
                        const AnswerStamp& stamp);

void add_lines_command(CLI::App& app, const LinesCommand& command);

}  // namespace mortise
