// mortise run: generates from one prompt (-p), or starts the REPL. Only the completion goes to standard output; figures
// go to standard error.
#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "assembly/default_script.hpp"
#include "checkpoint/checkpoint.hpp"
#include "cli/commands.hpp"
#include "cli/generation.hpp"
#include "cli/prompt.hpp"
#include "cli/repl/repl.hpp"
#include "cli/session.hpp"
#include "error.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

struct RunOptions {
  SessionOptions session;
  std::optional<std::string> prompt;
  nlohmann::json sampling = nlohmann::json::object();  // fields of a request body as given on the command line
  SpeculationChoice speculation;
  std::optional<std::int32_t> logprobs;
  bool json = false;
  bool chat = false;
  bool print_script = false;
};

// This is longer than most answers, but short enough to wait for.
constexpr std::int32_t kDefaultMaxTokens = 256;

template <typename T>
void add_field(CLI::App& command, RunOptions& options, const char* flag, const char* field, const char* description) {
  command
      .add_option_function<T>(
          flag, [&options, field](const T& value) { options.sampling[field] = value; }, description)
      ->allow_extra_args(false);  // one value per flag; the next word is the script
}

void add_sampling_options(CLI::App& command, RunOptions& options) {
  add_field<std::int64_t>(command, options, "--max-tokens", "max_tokens",
                          "maximum number of tokens to generate (default 256)");
  add_field<double>(command, options, "--temperature", "temperature", "0: greedy");
  add_field<double>(command, options, "--top-p", "top_p", "keep the likeliest tokens up to this probability");
  add_field<std::int64_t>(command, options, "--top-k", "top_k", "keep this many tokens; 0: all");
  add_field<double>(command, options, "--min-p", "min_p",
                    "drop tokens below this share of the likeliest's probability");
  add_field<std::uint64_t>(command, options, "--seed", "seed",
                           "the same seed gives the same tokens; drawn and shown if not given");
  add_field<double>(command, options, "--repetition-penalty", "repetition_penalty", "above 1: repeats less");
  add_field<double>(command, options, "--frequency-penalty", "frequency_penalty", "subtracted for each earlier use");
  add_field<double>(command, options, "--presence-penalty", "presence_penalty", "subtracted once for a used token");
  add_field<std::int64_t>(command, options, "--min-tokens", "min_tokens", "no end before that many");
  add_field<std::vector<std::string>>(command, options, "--stop", "stop", "end before this text; may be repeated");
  add_field<std::vector<std::string>>(command, options, "--choice", "choices",
                                      "the answer is exactly one of these texts; repeat it for each text");
  add_field<std::int64_t>(command, options, "-n", "n", "number of choices to generate; each follows a line of its own");
  command.add_flag_callback(
      "--ignore-eos", [&options] { options.sampling["ignore_eos"] = true; }, "go on past end tokens");
}

nlohmann::ordered_json token_json(const Tokenizer& tokenizer, const TokenInfo& info) {
  nlohmann::ordered_json json = {{"id", info.id},
                                 {"token", tokenizer.decode(std::span(&info.id, 1), /*skip_special_tokens=*/false)}};
  if (info.rank > 0) {
    json["logprob"] = info.logprob;
    json["rank"] = info.rank;
    auto top = nlohmann::ordered_json::array();
    for (const auto& [id, logprob] : info.top) top.push_back({{"id", id}, {"logprob", logprob}});
    json["top"] = std::move(top);
  }
  return json;
}

nlohmann::ordered_json generation_json(const OpenPipeline& pipeline, const std::string& prompt,
                                       const Generation& generation) {
  const Tokenizer& tokenizer = pipeline.assembly.tokenizer();
  auto tokens = nlohmann::ordered_json::array();
  for (const TokenInfo& info : generation.tokens) tokens.push_back(token_json(tokenizer, info));
  nlohmann::ordered_json json = {{"prompt", prompt},
                                 {"text", generation.text},
                                 {"finish_reason", to_string(generation.last.finish)},
                                 {"tokens", std::move(tokens)},
                                 {"prompt_tokens", generation.last.usage.prompt_tokens},
                                 {"completion_tokens", generation.last.usage.completion_tokens},
                                 {"seed", generation.last.seed},
                                 {"first_token_s", generation.first_token_s},
                                 {"total_s", generation.total_s},
                                 {"system_fingerprint", pipeline.service.info().system_fingerprint}};
  if (!pipeline.assembly.description().proposers.empty())
    json["speculation"] = to_json(pipeline.engine.stats().speculation);
  return json;
}

// Prints one object, or a list of objects if there are several choices.
void print_json(const OpenPipeline& pipeline, const std::string& prompt, const std::vector<Generation>& choices) {
  auto list = nlohmann::ordered_json::array();
  for (const Generation& choice : choices) list.push_back(generation_json(pipeline, prompt, choice));
  const nlohmann::ordered_json& json = list.size() == 1 ? list.front() : list;
  std::cout << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << std::endl;
}

void print_choice_line(std::size_t index, std::size_t count) {
  if (count > 1) std::cout << fmt::format("--- choice {} of {} ---\n", index + 1, count);
}

// Prints the choices after the first, whose text was printed as it came.
void print_others(const std::vector<Generation>& choices) {
  std::cout << '\n';
  for (std::size_t i = 1; i < choices.size(); ++i) {
    print_choice_line(i, choices.size());
    std::cout << choices[i].text << '\n';
  }
  std::cout << std::flush;
}

constexpr int kInterrupted = 128 + SIGINT;

// Returns the exit code.
int run_once(OpenPipeline& pipeline, const RunOptions& options, Request request) {
  const std::string prompt = read_prompt(*options.prompt, std::cin);
  request.prompt =
      options.chat ? chat_prompt(pipeline, {{{"role", "user"}, {"content", prompt}}}) : text_prompt(pipeline, prompt);
  request.logprobs = options.logprobs;
  const auto count = static_cast<std::size_t>(request.sampling.n);
  bool begun = options.json;
  const auto print = [&](const Delta& delta) {
    if (!std::exchange(begun, true)) print_choice_line(0, count);
    if (!options.json) std::cout << delta.text << std::flush;
  };
  const InterruptGuard guard;
  const std::vector<Generation> choices = generate_choices(pipeline.engine, std::move(request), print);
  print({});
  options.json ? print_json(pipeline, prompt, choices) : print_others(choices);
  int exit_code = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::cerr << (count > 1 ? fmt::format("choice {}: ", i + 1) : "") << describe(choices[i]) << '\n';
    if (choices[i].last.finish == FinishReason::kAborted) exit_code = kInterrupted;
  }
  return exit_code;
}

// Returns the exit code that a script expects for its piped input: 1 if any entry failed, and that of Ctrl-C if the
// dialogue was interrupted.
int hold_dialogue(Session& session, const RunOptions& options, const SamplingParams& defaults) {
  switch (run_repl(session, options.sampling, defaults)) {
    case ReplEnd::kSomeFailed:
      return 1;
    case ReplEnd::kInterrupted:
      return kInterrupted;
    case ReplEnd::kDone:
      break;
  }
  return 0;
}

void print_script(const std::string& folder) {
  std::error_code ignored;
  const bool is_script = std::filesystem::is_regular_file(folder, ignored) && !Checkpoint::is_gguf(folder);
  if (folder.empty() || is_script) {
    throw CLI::ValidationError("--print-script needs a checkpoint: mortise run --print-script FOLDER, or a GGUF file");
  }
  const std::filesystem::path path = folder;
  std::cout << default_script({&path, 1}, PluginCatalog::standard()) << std::flush;
}

void run(const RunOptions& options) {
  if (options.print_script) return print_script(options.session.script);
  if (!options.prompt && (options.json || options.logprobs || options.chat || options.sampling.contains("n"))) {
    throw CLI::ValidationError("--json, --logprobs, --chat and -n need one prompt: -p PROMPT");
  }
  if (!options.prompt && (options.speculation.proposer || options.speculation.max_tokens)) {
    throw CLI::ValidationError(
        "--proposer and --max-draft-tokens need one prompt: -p PROMPT; in a dialogue use /proposer");
  }
  SessionOptions session_options = options.session;
  session_options.warm_up = WarmUp::kWhenIdle;  // the first token of a single user should come early
  Session session(session_options);
  OpenPipeline& pipeline = session.pipeline();
  SamplingParams defaults = pipeline.service.info().defaults;
  defaults.max_tokens = kDefaultMaxTokens;
  int exit_code = 0;
  if (options.prompt) {
    Request request;
    request.sampling = read_sampling(Body(options.sampling), defaults);
    request.speculation = options.speculation;
    exit_code = run_once(pipeline, options, std::move(request));
  } else {
    exit_code = hold_dialogue(session, options, defaults);
  }
  session.close();
  if (exit_code != 0) throw CLI::RuntimeError(exit_code);
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "generate text from a prompt, or talk to the model in a dialogue");
  const auto options = std::make_shared<RunOptions>();
  add_session_options(*command, options->session);
  add_record_option(*command, options->session);
  command->add_option("-p,--prompt", options->prompt,
                      "generate from this prompt and end, - for standard input; without it, a dialogue");
  command->add_flag("--chat", options->chat, "treat the prompt as a user's message, for the pipeline's chat template");
  add_sampling_options(*command, *options);
  command->add_option("--logprobs", options->logprobs, "with --json: log probabilities and this many alternatives");
  command->add_option("--proposer", options->speculation.proposer,
                      "the proposer to use: one of the pipeline's proposers, or none");
  command->add_option("--max-draft-tokens", options->speculation.max_tokens, "drafts a step, at most")
      ->check(CLI::Range(0, INT32_MAX));
  command->add_flag("--json", options->json, "print one JSON object instead of text; with -n a list");
  command->add_flag("--print-script", options->print_script,
                    "write the pipeline script of a checkpoint (folder or GGUF file), as a starting point, and end");
  command->callback([options] { run(*options); });
}

}  // namespace mortise
