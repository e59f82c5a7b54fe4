// runtime/cli/main.cpp: the program `mortise`. Exit codes: 0, 1 (failed; one line says why), 2 (wrong usage), 3 (the
// engine could not take or finish the work; the same command may succeed later).
#include <fcntl.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "conformance/held_signals.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "loader/call_watchdog.hpp"
#include "loader/host_services.hpp"
#include "loader/nearest.hpp"
#include "loader/process_end.hpp"

namespace mortise {
namespace {

// Sends the log to standard error, because standard output is for results only. MORTISE_LOG: debug, info, warning (the
// default), error.
void log_to_stderr() {
  auto logger = spdlog::stderr_color_mt("mortise");
  logger->set_pattern("mortise: %^%l%$: %v");
  const std::optional<std::string> level = environment::read(environment::kLog);
  logger->set_level(level ? spdlog::level::from_str(*level) : spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

// A file opened later would get a standard descriptor that the caller has closed: a checkpoint in place of standard
// input, for instance. So this opens an empty input in place of a closed one, and in place of a closed output one that
// cannot be written, even as /dev/stdout. Then no answer is lost silently.
void open_standard_descriptors() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(descriptor, F_GETFD) < 0) [[maybe_unused]]
      const int opened = ::open(descriptor == STDIN_FILENO ? "/dev/null" : "/", O_RDONLY);
  }
}

// Turns an error code into an exit code. No other place does so.
int exit_code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalid:
    case ErrorCode::kNotFound:
    case ErrorCode::kTooLarge:
    case ErrorCode::kConflict:
    case ErrorCode::kInternal:
      break;
    case ErrorCode::kOverloaded:
    case ErrorCode::kDeadlineExceeded:
    case ErrorCode::kUnavailable:
      return 3;
  }
  return 1;
}

int report(int code, const char* text) {
  std::fflush(stdout);
  std::fprintf(stderr, "mortise: %s\n", text);
  return code;
}

// Reads MORTISE_CALL_LIMIT, the seconds after which a call into an active part is reported. The limit of other calls is
// ten times as long.
CallLimits call_limits() {
  CallLimits limits;
  const std::optional<std::string> text = environment::read(environment::kCallLimit);
  if (!text) return limits;
  char* end = nullptr;
  const double seconds = std::strtod(text->c_str(), &end);
  if (*end != '\0' || !(seconds > 0) || seconds > 1e6) {
    fail("MORTISE_CALL_LIMIT is '{}'; expected a number of seconds above 0, at most 1000000", *text);
  }
  return {seconds, 10 * seconds};
}

// Returns the error for a first word that is not a sub-command; "" if the word is one.
std::string unknown_command(const CLI::App& app, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_name() == word) return "";
    if (command->get_group().empty()) continue;  // hidden
    names.push_back(command->get_name());
  }
  if (word.starts_with('-')) return "";
  std::error_code ignored;
  const bool is_file = std::filesystem::exists(word, ignored);
  return fmt::format("there is no sub-command '{}'{}; there are: {} (see mortise --help)", word,
                     is_file ? fmt::format("; to run it: mortise run {}", word) : did_you_mean(word, names),
                     join_names(names));
}

// Returns the sub-command on the command line; if there are several, the innermost.
const CLI::App& given_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : full_name(*parent) + " " + command.get_name();
}

// Returns the problem with the command line, and where to find help.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  if (std::string text = argc > 1 ? unknown_command(app, argv[1]) : ""; !text.empty()) return text;
  const CLI::App& command = given_command(app);
  const std::vector<std::string> extras = app.remaining(/*recurse=*/true);
  std::string more;
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && command.get_require_subcommand_min() > 0) {
    std::vector<std::string> names;
    for (const CLI::App* each : command.get_subcommands({})) names.push_back(each->get_name());
    more = ": " + join_names(names);
  } else if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !extras.empty()) {
    std::vector<std::string> options;
    for (const CLI::Option* option : command.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    more = did_you_mean(extras.front().substr(0, extras.front().find('=')), options);
  }
  return fmt::format("{}{} (see {} --help)", error.what(), more, full_name(command));
}

int run(int argc, char** argv) {
  const CallWatchdog watchdog(call_limits(), [](const std::string& text) { spdlog::warn("{}", text); });
  CLI::App app("Serves language models out of interchangeable parts", "mortise");
  app.set_version_flag("--version", std::string("mortise ") + kVersion);
  app.require_subcommand(1);
  add_run_command(app);
  add_serve_command(app);
  add_ctl_command(app);
  add_batch_command(app);
  add_bench_command(app);
  add_score_command(app);
  add_replay_command(app);
  add_verify_command(app);
  add_bisect_command(app);
  add_plugin_command(app);
  add_check_command(app);
  add_tokenize_commands(app);
  add_trial_command(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked);
  } catch (const CLI::RuntimeError& reported) {
    return reported.get_exit_code();
  } catch (const CLI::ParseError& usage) {
    return report(2, usage_text(app, usage, argc, argv).c_str());
  }
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) return report(1, "standard output cannot be written");
  return 0;
}

}  // namespace
}  // namespace mortise

namespace {

int guarded_run(int argc, char** argv) {
  try {
    mortise::open_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // then writing to a file that may not grow is an error
    mortise::log_to_stderr();
    mortise::name_plugins_that_end_the_process();
    return mortise::run(argc, argv);
  } catch (const std::bad_alloc&) {
    return mortise::report(1, "out of memory");
  } catch (const mortise::conformance::Interrupted& interrupted) {
    return mortise::report(interrupted.exit_code(), interrupted.what());
  } catch (const mortise::Error& error) {
    return mortise::report(mortise::exit_code_of(error.code()), error.what());
  } catch (const std::exception& error) {
    return mortise::report(1, error.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int code = guarded_run(argc, argv);
  mortise::expect_process_end();
  return code;
}
