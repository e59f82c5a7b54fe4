#include "cli/json_lines_command.hpp"

#include <CLI/Error.hpp>
#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>

#include "cli/earlier_results.hpp"
#include "cli/stop_signals.hpp"
#include "cli/waiting_results.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "jsonl/input_lines.hpp"
#include "jsonl/output_lines.hpp"
#include "jsonl/progress.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

struct LinesOptions {
  SessionOptions session;
  std::string input, output;
  bool overwrite = false;
};

// The scheduler groups waiting requests that share a prefix (schedulers/prefix_group), so many more lines are at work
// than run at a time: sixteen batches. Each takes a few KiB, and a moment of every step's plan.
OrderedLinesLimits limits_of(std::int32_t max_num_seqs) {
  constexpr std::size_t kBatches = 16, kMin = 1024, kMax = 16384;
  OrderedLinesLimits limits;
  limits.max_sequences = std::clamp(kBatches * static_cast<std::size_t>(max_num_seqs), kMin, kMax);
  return limits;
}

// One run of batch or score over a file of lines. Used by the main thread.
class LinesRunner {
 public:
  LinesRunner(const LinesCommand& command, const LinesOptions& options)
      : command_(command),
        options_(options),
        label_(std::string("mortise: ") + command.name + ": "),
        in_(options.input, kMaxInputLineBytes),
        out_(options.output),
        progress_(label_) {
    if (out_.is_same_file(in_.fd())) fail("{}: is both the input and the output; give another -o", out_.name());
    if (out_.can_continue()) waiting_.emplace(command, options.output);
  }

  // Returns the exit code.
  int run() {
    EarlierResults earlier;
    if (out_.existing() != nullptr && !options_.overwrite) earlier = check_earlier_results(command_, in_, out_);
    state_ = earlier.progress;
    if (earlier.complete) {
      if (waiting_) waiting_->discard();
      return report("every line was done before");
    }
    state_.bytes_total = in_.size();

    Session session(options_.session);
    session.pipeline();  // opened here, so that a broken model gives one error instead of one per line
    check_fingerprints(earlier, session, out_);
    const LinesRun lines{session, created(earlier), kMaxInputLineBytes, unknown_fields_};
    if (waiting_ && options_.overwrite) waiting_->discard();
    if (waiting_) waiting_->start(earlier, session, lines.created);
    out_.start(earlier.output_bytes);
    const bool complete = run_lines(lines);
    if (waiting_ && complete) waiting_->discard();
    progress_.finish(state_);
    if (const std::string text = waiting_ ? waiting_->discarded() : ""; !text.empty())
      std::cerr << label_ << text << '\n';
    session.close();
    return complete ? report("") : interrupted();
  }

 private:
  // Returns the time of the run; a continued run has that of the run that it continues.
  std::int64_t created(const EarlierResults& earlier) const {
    std::optional<std::int64_t> created = earlier.created;
    if (!created && waiting_ && !options_.overwrite) created = waiting_->created();
    return created.value_or(in_.modified());
  }

  // Returns false if a signal stopped the run.
  bool run_lines(const LinesRun& lines) {
    const StopSignals signals;
    OrderedLinesEvents events;
    // If a part failed, lines without an answer get no result. The run ends before them, and the same command can
    // continue it.
    events.write = [&](const InputLine& line, LineResult result) {
      if (result.failed) lines.session.check_health();
      out_.write(result.text, StopSignals::received);
      ++state_.num_lines;
      state_.lines_before += result.from_earlier_run ? 1 : 0;
      state_.num_failed += result.failed ? 1 : 0;
      state_.num_tokens += result.num_tokens;
      state_.bytes_done = line.end;
    };
    events.tick = [&] {
      progress_.update(state_);
      lines.session.check_health();
      return StopSignals::received();
    };
    const auto start = [&](const InputLine& line, FinishLine finish) -> std::size_t {
      if (std::optional<LineResult> result = waiting_ ? waiting_->find(lines, line) : std::nullopt) {
        finish(std::move(*result));
        return 0;
      }
      return command_.start(lines, line, std::move(finish));
    };
    progress_.begin(state_);
    try {
      const OrderedLinesLimits limits = limits_of(lines.session.pipeline().assembly.limits().max_num_seqs);
      return run_ordered_lines(in_, limits, start, events, waiting_ ? &waiting_->lines() : nullptr);
    } catch (const Error& error) {
      progress_.clear();
      if (!out_.can_continue()) throw;
      fail(error.code(), "{} ({} {} done; run the same command again to continue)", error.what(),
           counted(state_.num_lines, "line"), state_.num_lines == 1 ? "is" : "are");
    }
  }

  int interrupted() const {
    std::cerr << label_ << "stopped; "
              << (out_.can_continue() ? "run the same command again to continue where it ended\n"
                                      : "output that is not a file cannot be continued\n");
    return StopSignals::exit_code();
  }

  int report(const char* what) const {
    if (*what != '\0') std::cerr << label_ << what << '\n';
    if (state_.num_failed == 0) return 0;
    std::cerr << label_ << counted(state_.num_failed, "line") << " failed; see \"error\" in the output\n";
    return 1;
  }

  const LinesCommand& command_;
  const LinesOptions& options_;
  const std::string label_;
  InputLines in_;
  OutputLines out_;
  std::optional<WaitingResults> waiting_;  // nullopt: the output is not a file
  Progress progress_;
  UnknownFieldLog unknown_fields_;
  ProgressState state_;
};

}  // namespace

std::optional<std::string> read_request(const LinesRun& run, const InputLine& line, ReadLine read,
                                        LineRequest& request) {
  try {
    read(line, run.max_line_bytes, request);
    run.session.route(request.body);
    run.session.pipeline_name(request.body);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

std::size_t run_request(const LinesRun& run, const LineRequest& request, std::function<void(Answer)> done,
                        const AnswerStamp& stamp) {
  run.unknown_fields.note(request.url, request.body);
  Service& service = run.session.pipeline_for(request.body).service;
  service.handle(request.url, request.body, std::move(done), stamp);
  return num_sequences(request.url, request.body);
}

void add_lines_command(CLI::App& app, const LinesCommand& description) {
  CLI::App* command = app.add_subcommand(description.name, description.description);
  const auto options = std::make_shared<LinesOptions>();
  add_session_options(*command, options->session);
  command->add_option("-i,--input", options->input, "JSON lines to read, - for standard input")->required();
  command
      ->add_option(
          "-o,--output", options->output,
          "JSON lines to write, - for standard output; a file that already has some of the results is continued")
      ->required();
  command->add_flag("--overwrite", options->overwrite, "start from the beginning, whatever the output contains");
  add_record_option(*command, options->session);
  command->callback([options, description] {
    const int exit_code = LinesRunner(description, *options).run();
    if (exit_code != 0) throw CLI::RuntimeError(exit_code);
  });
}

}  // namespace mortise
