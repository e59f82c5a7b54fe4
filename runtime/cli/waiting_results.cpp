#include "cli/waiting_results.hpp"

#include <nlohmann/json.hpp>

#include "counted.hpp"
#include "error.hpp"
#include "jsonl/output_lines.hpp"

namespace mortise {
namespace {

constexpr const char* kWhatToDo =
    "give the script that made it, another -o, or --overwrite to start from the beginning";

}  // namespace

WaitingResults::WaitingResults(const LinesCommand& command, const std::string& output)
    : command_(command), lines_(output + ".waiting") {
  const std::optional<nlohmann::json>& head = lines_.head();
  if (!head) return;
  const bool good = head->contains("created") && (*head)["created"].is_number_integer() &&
                    head->contains("system_fingerprint") && (*head)["system_fingerprint"].is_string();
  if (!good || head->value("command", nlohmann::json()) != command.name) {
    fail("{}: has no results of mortise {}; remove it or give another -o", lines_.path(), command.name);
  }
}

std::optional<std::int64_t> WaitingResults::created() const {
  return lines_.head() ? std::optional(lines_.head()->at("created").get<std::int64_t>()) : std::nullopt;
}

void WaitingResults::start(const EarlierResults& earlier, Session& session, std::int64_t created) {
  if (lines_.head()) {
    if (earlier.created && this->created() != earlier.created) {
      discarded_ = true;
      lines_.remove();
    } else {
      check_fingerprint(lines_.head()->at("system_fingerprint").get<std::string>(), session.pipeline());
    }
  }
  lines_.start({{"command", command_.name},
                {"created", created},
                {"system_fingerprint", session.pipeline().service.info().system_fingerprint}});
}

std::optional<LineResult> WaitingResults::find(const LinesRun& run, const InputLine& line) {
  std::optional<std::string> text = lines_.read(line.number);
  if (!text) return std::nullopt;
  InputLine result;
  result.text = std::move(*text);
  LinesCommand::Result read;
  bool is_of_line = result.text.starts_with(command_.result_begin(line, run.max_line_bytes));
  try {
    if (is_of_line) read = command_.read_result(parse_json_line(result, kMaxOutputLineBytes));
  } catch (const std::exception&) {  // the file is damaged; includes nlohmann's exceptions
    is_of_line = false;
  }
  if (!is_of_line) {
    lines_.drop(line.number);
    ++num_changed_;
    return std::nullopt;
  }
  if (read.system_fingerprint) {
    check_fingerprint(*read.system_fingerprint, run.session.pipeline_for(command_.body(line, run.max_line_bytes)));
  }
  return LineResult{std::move(result.text), read.failed, 0, /*from_earlier_run=*/true};
}

void WaitingResults::check_fingerprint(const std::string& fingerprint, const OpenPipeline& pipeline) const {
  const std::string& now = pipeline.service.info().system_fingerprint;
  if (now == fingerprint) return;
  fail(
      "{}: has results of system_fingerprint {}, pipeline '{}' is {}: another model, or parts that give different "
      "bits; {}",
      lines_.path(), fingerprint, pipeline.name, now, kWhatToDo);
}

std::string WaitingResults::discarded() const {
  if (discarded_) {
    return fmt::format("the finished lines in {} ran again: they do not belong to the run that made the output",
                       lines_.path());
  }
  if (num_changed_ == 0) return "";
  return fmt::format("{} in {} ran again: the input has changed there, or the file is damaged",
                     counted(num_changed_, "finished line"), lines_.path());
}

}  // namespace mortise
