// A request body. Input: one letter for the url (c completions, h chat, s score, d decisions), a Last-Event-ID if there
// is more on that line, a line end, and the body. It is parsed, read and checked as far as a request goes without a
// model: the engine here refuses every one for want of memory. Completions and chat are asked for as streams, too.
#include "engine/engine.hpp"
#include "error.hpp"
#include "fuzz_input.hpp"
#include "json/bounded_json.hpp"
#include "openai/answer_stream.hpp"
#include "openai/service.hpp"
#include "stub_tables.hpp"

namespace {

using mortise::fuzz::require;

// Of the device the engine asks at its start whether it has memory of its own.
mortise_status describe(mortise_device*, mortise_device_info* info) {
  info->host_memory = 1;
  return MORTISE_OK;
}

constexpr mortise_device_table kDevice = [] {
  mortise_device_table table = stub::device_table();
  table.describe = describe;
  return table;
}();

// An engine whose cache has no block: everything that submit() checks before is checked.
struct World {
  World()
      : tokenizer(mortise::Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo")),
        engine(parts(), limits(), {.vocab_size = static_cast<std::int32_t>(tokenizer.vocab_size())}, tokenizer),
        service(engine, tokenizer, info()) {}

  static mortise::Parts parts() {
    mortise::Parts parts;
    parts.device = {reinterpret_cast<mortise_device*>(&parts), &kDevice, "device"};
    return parts;
  }
  static mortise::EngineLimits limits() {
    mortise::EngineLimits limits;
    limits.max_model_len = 4096;
    limits.block_size = 16;
    return limits;
  }
  static mortise::ServiceInfo info() {
    mortise::ServiceInfo info;
    info.model = "fuzz";
    info.max_model_len = 4096;
    info.chat_template = [chat = std::make_shared<const mortise::ChatTemplate>(mortise::ChatTemplate::compile(
                              "{% for m in messages %}{{ m.role ~ m.content ~ (m.tool_calls or '') }}{% endfor %}"))](
                             const mortise::ChatInput& input) {
      mortise::ChatInput fitted = input;
      fitted.messages = chat->fitted(input.messages);
      return mortise::ChatPrompt{chat->render(fitted)};
    };
    return info;
  }

  mortise::Tokenizer tokenizer;
  mortise::Engine engine;
  mortise::Service service;
};

}  // namespace

namespace {

const char* url_of(char letter) {
  switch (letter) {
    case 'h':
      return "/v1/chat/completions";
    case 's':
      return "/v1/score";
    case 'd':
      return "/v1/decisions";
    default:
      return "/v1/completions";
  }
}

void stream(World& world, const std::string& url, const nlohmann::json& body, std::string_view last_event_id) {
  const std::optional<std::string> id =
      last_event_id.empty() ? std::nullopt : std::optional(std::string(last_event_id));
  try {
    std::string events;  // of a stream that has ended already: any other needs the engine
    require(world.service.stream(url, body, id, [] {})->take(events) == mortise::StreamState::kWhole);
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static World world;
  const std::string_view input = mortise::fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), size);
  const std::string url = url_of(line > 0 ? input.front() : 'c');
  nlohmann::json body;
  try {
    body = mortise::parse_json(input.substr(std::min(line + 1, size)));
  } catch (const mortise::Error& error) {
    require(*error.what() != '\0');
    return 0;
  }
  int answers = 0;
  world.service.handle(url, body, [&](mortise::Answer answer) {
    ++answers;
    // Only a score without completions gets 200, because it has nothing to run.
    require(answer.status == 400 || answer.status == 200);
    require(!answer.body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).empty());
  });
  require(answers == 1);
  if (url == "/v1/completions" || url == "/v1/chat/completions") {
    stream(world, url, body, input.substr(std::min<std::size_t>(1, line), line > 0 ? line - 1 : 0));
  }
  return 0;
}
