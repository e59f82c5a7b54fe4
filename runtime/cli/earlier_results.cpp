#include "cli/earlier_results.hpp"

#include <algorithm>

#include "error.hpp"

namespace mortise {
namespace {

constexpr const char* kWhatToDo = "give the input that made it, another -o, or --overwrite to start from the beginning";

[[noreturn]] void fail_mismatch(const InputLines& results, const InputLine& result, const InputLines& in,
                                const InputLine& line) {
  fail(
      "{}: line {} is not the result of line {} of {}: one of the files has changed, or they do not belong "
      "together; {}",
      results.name(), result.number, line.number, in.name(), kWhatToDo);
}

LinesCommand::Result read_result(const LinesCommand& command, const InputLines& results, const InputLine& result) {
  try {
    return command.read_result(parse_json_line(result, results.max_line_bytes()));
  } catch (const std::exception& error) {  // also nlohmann's exceptions, because this program did not write the line
    fail("{}: line {} is damaged ({}); {}", results.name(), result.number, error.what(), kWhatToDo);
  }
}

}  // namespace

EarlierResults check_earlier_results(const LinesCommand& command, InputLines& in, OutputLines& out) {
  EarlierResults earlier;
  InputLines& results = *out.existing();
  InputLine result, line;
  while (results.wait_next(result)) {
    if (!in.wait_next(line)) {
      fail("{}: line {} is beyond the last request of {}; {}", results.name(), result.number, in.name(), kWhatToDo);
    }
    const std::string begin = command.result_begin(line, in.max_line_bytes());
    const std::size_t known = result.terminated ? begin.size() : std::min(begin.size(), result.text.size());
    if (result.text.compare(0, known, begin, 0, known) != 0) fail_mismatch(results, result, in, line);
    if (!result.terminated) {
      in.put_back(std::move(line));
      break;
    }
    const LinesCommand::Result read = read_result(command, results, result);
    if (!earlier.created) earlier.created = read.created;
    if (read.system_fingerprint && !earlier.fingerprints.contains(*read.system_fingerprint)) {
      earlier.fingerprints[*read.system_fingerprint] = command.body(line, in.max_line_bytes());
    }
    earlier.output_bytes = result.end;
    earlier.progress.num_failed += read.failed ? 1 : 0;
    earlier.progress.lines_before = ++earlier.progress.num_lines;
    earlier.progress.bytes_before = earlier.progress.bytes_done = line.end;
  }
  earlier.complete = !in.wait_next(line);
  if (!earlier.complete) in.put_back(std::move(line));
  return earlier;
}

void check_fingerprints(const EarlierResults& earlier, Session& session, const OutputLines& out) {
  for (const auto& [fingerprint, body] : earlier.fingerprints) {
    const OpenPipeline& pipeline = session.pipeline_for(body);
    const std::string& now = pipeline.service.info().system_fingerprint;
    if (now == fingerprint) continue;
    fail(
        "{}: has results of system_fingerprint {}, pipeline '{}' is {}: another model, or parts that give different "
        "bits; give the script that made it, another -o, or --overwrite to start from the beginning",
        out.name(), fingerprint, pipeline.name, now);
  }
}

}  // namespace mortise
