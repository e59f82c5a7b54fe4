#include "bench_command/speculation_work.hpp"

#include <fstream>
#include <future>
#include <iterator>
#include <random>

#include "bench_command/load.hpp"
#include "error.hpp"
#include "openai/job.hpp"
#include "replay/request_log.hpp"

namespace mortise::bench {
namespace {

template <std::size_t N>
const char* pick(const char* const (&texts)[N], std::mt19937& random) {
  return texts[random() % N];
}

// Words that the demo model was trained on (scripts/train).
constexpr const char* kTraits[] = {"clever", "brave", "small", "quiet", "cheerful", "gentle", "proud", "curious"};
constexpr const char* kAnimals[] = {"otter", "fox", "rabbit", "bear", "mouse", "owl", "hedgehog", "goose"};
constexpr const char* kNames[] = {"Miro", "Pip", "Lina", "Toby", "Nora", "Juno", "Bram", "Wren"};
constexpr const char* kWords[] = {"candle", "bridge", "lemon",  "garden", "silver", "engine", "kettle", "market",
                                  "number", "orange", "pencil", "ribbon", "school", "ticket", "winter", "yellow"};

Request greedy(std::vector<std::int32_t> prompt, std::int32_t output) {
  Request request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.seed = 0;
  request.sampling.max_tokens = output;
  return request;
}

}  // namespace

std::vector<Request> story_requests(const Tokenizer& tokenizer, std::size_t count, std::int32_t output) {
  std::mt19937 random(1);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string text = fmt::format("Once upon a time there was a {} {} named {}.", pick(kTraits, random),
                                         pick(kAnimals, random), kNames[i % std::size(kNames)]);
    requests.push_back(greedy(tokenizer.encode(text, /*add_special_tokens=*/true), output));
    requests.back().sampling.ignore_eos = true;
  }
  return requests;
}

std::vector<Request> quote_requests(const Tokenizer& tokenizer, std::size_t count) {
  constexpr int kLines = 16;
  constexpr std::int32_t kMaxTokens = 400;  // an answer has about 160
  std::mt19937 random(2);
  std::vector<Request> requests;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = "<|im_start|>user\nRepeat this text word for word.\n\n";
    for (int line = 0; line < kLines; ++line) {
      text += fmt::format("{}{}: {}", line == 0 ? "" : "\n", pick(kWords, random), 10000 + random() % 90000);
    }
    text += "<|im_end|>\n<|im_start|>assistant\n";
    requests.push_back(greedy(tokenizer.encode(text, /*add_special_tokens=*/true), kMaxTokens));
  }
  return requests;
}

std::vector<Request> novel_requests(std::int32_t vocab_size, std::size_t count, std::int32_t prompt,
                                    std::int32_t output) {
  std::vector<Request> requests =
      make_requests(std::vector<SequenceShape>(count, {prompt, output, 0}), vocab_size, /*seed=*/3);
  for (std::size_t i = 0; i < count; ++i) {
    requests[i].sampling.temperature = 1;
    requests[i].sampling.seed = i;
  }
  return requests;
}

void record_requests(Engine& engine, const Assembly& assembly, std::vector<Request>& requests,
                     const std::filesystem::path& log) {
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (!requests[i].sampling.seed) requests[i].sampling.seed = i;
  }
  std::promise<std::pair<JobResult, std::optional<Error>>> done;
  run_job(engine, requests, nullptr, [&](JobResult result, std::optional<Error> error) {
    done.set_value({std::move(result), std::move(error)});
  });
  const auto [result, error] = done.get_future().get();
  if (error) fail(error->code(), "bench: the engine ended a request: {}", error->what());
  std::ofstream stream(log, std::ios::binary);
  stream << to_json(LogHeader{"bench", "", assembly.system_fingerprint(), assembly.numerics_id(),
                              assembly.dims().vocab_size, assembly.vocabulary()})
                .dump()
         << '\n';
  for (std::size_t i = 0; i < requests.size(); ++i) {
    RecordedRequest recorded;
    recorded.id = i + 1;
    recorded.pipeline = "bench";
    recorded.request = requests[i];
    for (const ChoiceResult& choice : result[i]) {
      recorded.choices.push_back({{}, choice.tokens, choice.finish, choice.stop_token, {}});
    }
    stream << to_json(recorded).dump() << '\n';
  }
  if (!stream.flush()) fail("{}: cannot be written; is the disk full? (TMPDIR can name another folder)", log.native());
}

}  // namespace mortise::bench
