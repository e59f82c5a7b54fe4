// mortise replay: runs a request log again, with the same or other parts, and compares every token and log probability
// bit by bit. Writes the first differences and a summary to standard output.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <map>
#include <mutex>

#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "cli/stop_signals.hpp"
#include "counted.hpp"
#include "error.hpp"
#include "jsonl/json_line.hpp"
#include "jsonl/ordered_lines.hpp"
#include "jsonl/progress.hpp"
#include "openai/job.hpp"
#include "replay/compare.hpp"
#include "replay/numerics_change.hpp"
#include "replay/request_log.hpp"

namespace mortise {
namespace {

// This is more than batch's limit, because a line of a log also has the results: up to three million log probabilities
// of 30 bytes.
constexpr std::size_t kMaxLogLineBytes = std::size_t{256} << 20;
constexpr std::uint64_t kMaxShown = 10;  // differences and errors printed; the others are only counted
constexpr const char* kLabel = "mortise: replay: ";

struct ReplayOptions {
  std::string log;
  SessionOptions session;
};

struct Totals {
  std::uint64_t num_requests = 0, num_different = 0;  // num_requests: compared; num_different: those with a difference
  std::uint64_t num_tokens = 0, num_logprobs = 0, num_differences = 0;
  std::uint64_t num_empty = 0;   // aborted before there was any result
  std::uint64_t num_errors = 0;  // lines that are no request, and requests that cannot run here
  bool cut = false;              // the last line is incomplete, because the recording was killed
};

bool has_proposer(const OpenPipeline& pipeline, const std::string& name) {
  const std::vector<PartDescription> proposers = pipeline.assembly.description().proposers;
  return name == "none" || std::any_of(proposers.begin(), proposers.end(),
                                       [&](const PartDescription& proposer) { return proposer.name == name; });
}

// One run of `mortise replay`. The main thread runs it; sinks add to totals_ under the lock.
class Replay {
 public:
  explicit Replay(const ReplayOptions& options)
      : in_(options.log, kMaxLogLineBytes), session_(options.session), progress_(kLabel) {}

  int run() {
    state_.bytes_total = in_.size();
    check_first_line();
    progress_.begin(state_);
    const bool complete = run_lines();
    progress_.finish(state_);
    session_.close();
    print_summary();
    if (!complete) std::cerr << kLabel << "stopped before the end of the log\n";
    if (!complete) return StopSignals::exit_code();
    return totals_.num_different + totals_.num_errors == 0 ? 0 : 1;
  }

 private:
  void check_first_line() {
    InputLine line;
    if (!in_.wait_next(line)) fail("{}: is empty; a request log begins with a header", in_.name());
    if (!line.text.starts_with(R"({"mortise_log")")) {
      fail("{}: is not a request log, as --record writes it: line {} is not a header", in_.name(), line.number);
    }
    in_.put_back(std::move(line));
  }

  bool run_lines() {
    const StopSignals signals;
    OrderedLinesEvents events;
    events.write = [&](const InputLine& line, const LineResult& result) {
      ++state_.num_lines;
      state_.num_failed += result.failed ? 1 : 0;
      state_.num_tokens += result.num_tokens;
      state_.bytes_done = line.end;
      if (result.failed) show(line, result.text);
    };
    events.tick = [&] {
      progress_.update(state_);
      return StopSignals::received();
    };
    return run_ordered_lines(
        in_, OrderedLinesLimits{},
        [this](const InputLine& line, const FinishLine& finish) { return start(line, finish); }, events);
  }

  // Starts the request of a line. An error in a header ends the replay. An error in a request is counted, and the
  // others run.
  std::size_t start(const InputLine& line, const FinishLine& finish) {
    const auto refuse = [&](const char* what) {
      const std::lock_guard lock(mutex_);
      ++totals_.num_errors;
      finish({what, true, 0});
      return std::size_t{0};
    };
    nlohmann::json json;
    try {
      json = parse_json_line(line, in_.max_line_bytes());
    } catch (const Error& error) {
      if (line.terminated) return refuse(error.what());
      totals_.cut = true;
      finish({});
      return 0;
    }
    if (is_log_header(json)) {
      open_pipeline(line, json);
      finish({});
      return 0;
    }
    try {
      return submit(read_recorded_request(json), finish);
    } catch (const Error& error) {
      return refuse(error.what());
    }
  }

  void open_pipeline(const InputLine& line, const nlohmann::json& json) {
    LogHeader header;
    OpenPipeline* pipeline = nullptr;
    try {
      header = read_log_header(json);
      pipeline = &session_.pipeline_named(header.pipeline);
    } catch (const Error& error) {
      fail("{}: line {}: {}", in_.name(), line.number, error.what());
    }
    const Assembly& assembly = pipeline->assembly;
    if (header.vocab_size != assembly.dims().vocab_size || header.vocabulary != assembly.vocabulary()) {
      fail(
          "{}: line {}: pipeline '{}' was recorded with a vocabulary of {} tokens ({}), but {} has {} tokens ({}); use "
          "a "
          "script whose model has the recorded vocabulary",
          in_.name(), line.number, header.pipeline, header.vocab_size, header.vocabulary,
          pipeline->service.info().model, assembly.dims().vocab_size, assembly.vocabulary());
    }
    pipelines_[header.pipeline] = pipeline;
    if (header.system_fingerprint == assembly.system_fingerprint()) return;
    progress_.clear();
    std::cerr << fmt::format("{}pipeline '{}' was recorded as {}, this is {}: {}{}\n", kLabel, header.pipeline,
                             header.system_fingerprint, assembly.system_fingerprint(),
                             describe_change(header.numerics_id, assembly.numerics_id()),
                             numerics_remedy(header.numerics_id, assembly.numerics_id()));
  }

  std::size_t submit(RecordedRequest recorded, const FinishLine& finish) {
    const auto pipeline = pipelines_.find(recorded.pipeline);
    if (pipeline == pipelines_.end()) {
      fail("request {}: no header before it names pipeline '{}'", recorded.id, recorded.pipeline);
    }
    std::optional<Request> request = request_to_replay(recorded);
    if (!request) {
      const std::lock_guard lock(mutex_);
      ++totals_.num_empty;
      finish({});
      return 0;
    }
    // The choice of a proposer does not affect the result, and other parts may have other proposers.
    std::optional<std::string>& drafter = request->speculation.proposer;
    if (drafter && !has_proposer(*pipeline->second, *drafter)) drafter.reset();
    const auto num_choices = static_cast<std::size_t>(request->sampling.n);
    const auto original = std::make_shared<const RecordedRequest>(std::move(recorded));
    const auto done = [this, original, finish](const JobResult& result, const std::optional<Error>& error) {
      finish(compare_with(*original, result.front(), error ? error->what() : ""));
    };
    try {
      run_job(pipeline->second->engine, {std::move(*request)}, nullptr, done);
    } catch (const Error& error) {
      fail(error.code(), "request {} cannot run here: {}", original->id, error.what());
    }
    return num_choices;
  }

  // Called on a delivery thread.
  LineResult compare_with(const RecordedRequest& recorded, const std::vector<ChoiceResult>& choices,
                          const std::string& error) {
    RecordedRequest replayed;
    std::uint64_t num_tokens = recorded.request.prompt.size();
    for (const ChoiceResult& choice : choices) {
      if (choice.finish == FinishReason::kAborted) return {};  // the replay was stopped
      replayed.choices.push_back({choice.prompt, choice.tokens, choice.finish, choice.stop_token, error});
      num_tokens += choice.tokens.size();
    }
    const Comparison comparison = compare(recorded, replayed);
    const std::lock_guard lock(mutex_);
    ++totals_.num_requests;
    totals_.num_tokens += comparison.num_tokens;
    totals_.num_logprobs += comparison.num_logprobs;
    totals_.num_differences += comparison.num_differences;
    if (!comparison.first) return {"", false, num_tokens};
    ++totals_.num_different;
    return {fmt::format("request {}, {}", recorded.id, *comparison.first), true, num_tokens};
  }

  void show(const InputLine& line, const std::string& text) {
    if (++num_shown_ > kMaxShown) return;
    progress_.clear();
    std::cout << fmt::format("{}: line {}: {}\n", in_.name(), line.number, text) << std::flush;
  }

  void print_summary() {
    const std::lock_guard lock(mutex_);
    if (num_shown_ > kMaxShown) std::cout << fmt::format("... and {} more\n", num_shown_ - kMaxShown);
    std::cout << fmt::format(
        "requests           {} compared, {} with differences\n"
        "tokens             {} compared\n"
        "log probabilities  {} compared\n"
        "differences        {}\n",
        totals_.num_requests, totals_.num_different, totals_.num_tokens, totals_.num_logprobs, totals_.num_differences);
    if (totals_.num_empty > 0)
      std::cout << fmt::format("nothing recorded   {}\n", counted(totals_.num_empty, "request"));
    if (totals_.num_errors > 0)
      std::cout << fmt::format("errors             {}\n", counted(totals_.num_errors, "line"));
    if (totals_.cut) std::cout << "cut off            the last line\n";
    std::cout << std::flush;
  }

  InputLines in_;
  std::map<std::string, OpenPipeline*> pipelines_;
  std::uint64_t num_shown_ = 0;
  ProgressState state_;
  std::mutex mutex_;  // guards totals_ while engines run
  Totals totals_;
  Session session_;  // its engines end before the members that their sinks use
  Progress progress_;
};

}  // namespace

void add_replay_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("replay", "run a request log again and compare it bit by bit");
  const auto options = std::make_shared<ReplayOptions>();
  command->add_option("log", options->log, "request log, as --record writes it; - for standard input")->required();
  add_session_options(*command, options->session);
  command->callback([options] {
    const int exit_code = Replay(*options).run();
    if (exit_code != 0) throw CLI::RuntimeError(exit_code);
  });
}

}  // namespace mortise
