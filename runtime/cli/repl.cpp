#include "cli/repl.hpp"

#include <editline/readline.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "cli/generation.hpp"
#include "error.hpp"
#include "openai/body.hpp"

namespace mortise {
namespace {

constexpr const char* kHelp =
    "A line is a prompt; the model continues it. Ctrl-C stops a generation, Ctrl-D ends.\n"
    "  /set NAME VALUE   a sampling field: temperature, top_p, top_k, min_p, seed, max_tokens, ...\n"
    "  /set              shows what is set\n"
    "  /chat             turns chat on or off: lines become messages of a conversation\n"
    "  /stats            figures of the engine\n"
    "  /help  /quit\n";

class Repl {
 public:
  Repl(Session& session, nlohmann::json fields, const SamplingParams& defaults)
      : pipeline_(session.pipeline()), fields_(std::move(fields)), defaults_(defaults) {}

  void run() {
    const InterruptGuard guard;
    if (interactive_) std::cerr << "mortise: " << pipeline_.service.info().model << "; /help for help\n";
    while (const std::optional<std::string> line = read_line()) {
      InterruptGuard::clear();
      if (line->find_first_not_of(" \t\r") == std::string::npos) continue;
      if (*line == "/quit") return;
      try {
        line->front() == '/' ? command(*line) : answer(*line);
      } catch (const std::exception& error) {
        std::cerr << "mortise: " << error.what() << '\n';
      }
    }
  }

 private:
  std::optional<std::string> read_line() {
    if (!interactive_) {
      std::string line;
      if (!std::getline(std::cin, line)) return std::nullopt;
      return line;
    }
    char* raw = readline(chat_ ? "chat> " : "> ");
    if (raw == nullptr) {
      // libedit returns NULL at Ctrl-C too; only the end of the input ends the dialogue.
      if (!InterruptGuard::interrupted()) return std::nullopt;
      std::cout << std::endl;
      return "";
    }
    std::string line = raw;
    std::free(raw);
    if (!line.empty()) add_history(line.c_str());
    return line;
  }

  void command(const std::string& line) {
    const std::size_t space = line.find(' ');
    const std::string name = line.substr(0, space);
    const std::string rest = space == std::string::npos ? "" : line.substr(space + 1);
    if (name == "/help") {
      std::cout << kHelp << std::flush;
    } else if (name == "/set") {
      set(rest);
    } else if (name == "/chat") {
      chat_ = !chat_;
      messages_ = nlohmann::json::array();
      std::cout << (chat_ ? "chat is on" : "chat is off") << std::endl;
    } else if (name == "/stats") {
      stats();
    } else {
      fail("unknown command {}; /help lists them", name);
    }
  }

  void set(const std::string& rest) {
    if (rest.empty()) {
      std::cout << fields_.dump() << std::endl;
      return;
    }
    const std::size_t space = rest.find(' ');
    if (space == std::string::npos) fail("/set takes a name and a value, as in: /set temperature 0.7");
    const std::string name = rest.substr(0, space);
    const std::string text = rest.substr(space + 1);
    nlohmann::json value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (value.is_discarded()) value = text;
    static const nlohmann::json known = {"temperature",
                                         "top_p",
                                         "top_k",
                                         "min_p",
                                         "seed",
                                         "max_tokens",
                                         "min_tokens",
                                         "repetition_penalty",
                                         "frequency_penalty",
                                         "presence_penalty",
                                         "stop",
                                         "ignore_eos",
                                         "logit_bias",
                                         "stop_token_ids"};
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      fail("unknown field '{}'; known are {}", name, known.dump());
    }
    nlohmann::json changed = fields_;
    changed[name] = std::move(value);
    validate(read_sampling(Body(changed), defaults_), pipeline_.assembly.dims().vocab_size);
    fields_ = std::move(changed);
  }

  void stats() {
    const EngineStats stats = pipeline_.engine.stats();
    std::cout << fmt::format("steps {}, rows {}, generated tokens {}, preemptions {}, KV blocks {} of {} free\n",
                             stats.num_steps, stats.num_rows, stats.num_generated, stats.num_preemptions,
                             stats.num_free_blocks, stats.num_blocks)
              << std::flush;
  }

  void answer(const std::string& line) {
    const Tokenizer& tokenizer = pipeline_.assembly.tokenizer();
    Request request;
    request.sampling = read_sampling(Body(fields_), defaults_);
    nlohmann::json messages = messages_;
    if (chat_) {
      messages.push_back({{"role", "user"}, {"content", line}});
      request.prompt = chat_tokens(pipeline_.service.info().chat_template(messages), tokenizer);
    } else {
      request.prompt = tokenizer.encode(line, /*add_special_tokens=*/true);
    }
    const Generation generation = generate(pipeline_.engine, std::move(request),
                                           [](const std::string& text) { std::cout << text << std::flush; });
    std::cout << std::endl;
    std::cerr << describe(generation) << '\n';
    if (chat_) {
      messages.push_back({{"role", "assistant"}, {"content", generation.text}});
      messages_ = std::move(messages);
    }
  }

  OpenPipeline& pipeline_;
  nlohmann::json fields_;
  const SamplingParams defaults_;
  const bool interactive_ = isatty(STDIN_FILENO) != 0;
  bool chat_ = false;
  nlohmann::json messages_ = nlohmann::json::array();
};

}  // namespace

void run_repl(Session& session, nlohmann::json fields, const SamplingParams& defaults) {
  Repl(session, std::move(fields), defaults).run();
}

}  // namespace mortise
