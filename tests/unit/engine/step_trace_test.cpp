// Covers: runtime/engine/{hooks,phase_times}
#include "engine/step_trace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "delivery/mailbox.hpp"
#include "engine/engine.hpp"
#include "engine_fixture.hpp"
#include "temp_folder.hpp"

namespace mortise {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::FakeWorld;
using test::kVocab;

json read_json(const fs::path& path) {
  std::ifstream file(path);
  return json::parse(file);
}

// The first thing that breaks the schema, or "".
std::string schema_error(const json& document) {
  const json schema_json = read_json(MORTISE_SOURCE_DIR "/tests/unit/trace/trace_schema.json");
  valijson::Schema schema;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema_json), schema);
  valijson::ValidationResults results;
  valijson::Validator validator(valijson::Validator::kStrongTypes);
  if (validator.validate(schema, valijson::adapters::NlohmannJsonAdapter(document), &results)) return "";
  valijson::ValidationResults::Error error;
  std::string text = "not valid";
  while (results.popError(error)) {
    for (const std::string& part : error.context) text += " " + part;
    text += ": " + error.description;
  }
  return text;
}

class StepTraceTest : public ::testing::Test {
 protected:
  // Runs requests on a pool so small that some are preempted, and returns the trace.
  json run(int num_requests, std::int32_t n) {
    const EngineLimits limits = test::small_limits();
    FakeWorld world(limits);
    TraceFile file((folder / "trace.json").string());
    const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
    std::mutex mutex;
    std::condition_variable changed;
    int open = num_requests * n;
    {
      EngineHooks hooks;
      hooks.trace = &file;
      hooks.name = "pipeline toy";
      Engine engine(world.parts(), limits, ModelInfo{kVocab, {}}, tokenizer, hooks);
      for (int i = 0; i < num_requests; ++i) {
        Request request;
        for (int k = 0; k < 20 + i; ++k) request.prompt.push_back((i + k) % kVocab);
        request.sampling.temperature = 0;
        request.sampling.n = n;
        request.sampling.max_tokens = 20;
        engine.submit(std::move(request), [&](const Delta& delta) {
          const std::lock_guard lock(mutex);
          if (delta.finish != FinishReason::kNone && --open == 0) changed.notify_one();
        });
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return open == 0; });
    }
    file.close();
    return read_json(folder / "trace.json");
  }

  const test::TempFolder temp;
  const fs::path& folder = temp.path();
};

// Nanoseconds: the file has microseconds with three digits after the point.
std::int64_t ns(const json& number) {
  return std::llround(number.get<double>() * 1000);
}

TEST_F(StepTraceTest, EveryEventHasTheFieldsThatViewersNeed) {
  const json events = run(8, 2);
  EXPECT_EQ(schema_error(events), "");
  json broken = events;
  broken.push_back({{"ph", "X"}, {"name", "step"}, {"pid", 1}, {"tid", 1}, {"ts", 1}});
  EXPECT_NE(schema_error(broken), "");  // "": the schema accepts anything
}

TEST_F(StepTraceTest, PhasesLieInOrderInsideTheirStepWithoutGapsOrOverlap) {
  const std::vector<std::string> phases = {"inbox",  "plan",   "propose", "build", "forward",
                                           "sample", "commit", "text",    "stream"};
  std::int64_t step_end = 0, phase_end = 0;
  std::size_t num_steps = 0, next_phase = phases.size();
  for (const json& event : run(8, 1)) {
    if (event["ph"] != "X") continue;
    const std::int64_t begin = ns(event["ts"]), end = begin + ns(event["dur"]);
    if (event["cat"] == "step") {
      EXPECT_EQ(next_phase, phases.size()) << "a step before the last one had all its phases";
      EXPECT_GE(begin, step_end);
      step_end = end;
      phase_end = begin;
      next_phase = 0;
      EXPECT_EQ(event["args"]["step"], ++num_steps);
    } else {
      ASSERT_LT(next_phase, phases.size()) << event;
      EXPECT_EQ(event["name"], phases[next_phase++]);
      EXPECT_EQ(begin, phase_end);
      EXPECT_LE(end, step_end);
      phase_end = end;
    }
  }
  EXPECT_GT(num_steps, 10u);
}

TEST_F(StepTraceTest, EventsComeInOrderOfTime) {
  std::int64_t last = 0;
  for (const json& event : run(8, 2)) {
    EXPECT_GE(ns(event["ts"]), last) << event;
    last = ns(event["ts"]);
  }
}

TEST_F(StepTraceTest, EveryChoiceBeginsAndEndsOnceWithItsFirstTokenBetween) {
  std::map<std::string, std::string> lives;
  std::set<std::string> names;
  bool preempted = false;
  for (const json& event : run(8, 2)) {
    const std::string ph = event["ph"];
    if (!event.contains("id")) continue;
    if (event["name"] == "preempted") {
      preempted = true;
      continue;
    }
    if (ph == "b") names.insert(event["name"]);
    if (ph == "e") {
      EXPECT_EQ(event["args"]["finish_reason"], "length");
    }
    lives[event["id"]] += ph;
  }
  EXPECT_EQ(lives.size(), 16u);
  for (const auto& [id, life] : lives) EXPECT_EQ(life, "bne") << id;
  EXPECT_TRUE(names.contains("request 1/0") && names.contains("request 8/1"));
  EXPECT_TRUE(preempted) << "the pool was never short: this test shows less than it should";
}

TEST_F(StepTraceTest, ArgumentsAddUp) {
  std::int64_t rows = 0, prompt = 0, decode = 0, generated = 0;
  json last_counter;
  for (const json& event : run(8, 1)) {
    if (event["ph"] == "C" && event["name"] == "KV blocks") last_counter = event["args"];
    if (event["ph"] != "X" || event["cat"] != "step") continue;
    const json& args = event["args"];
    EXPECT_LE(args["rows"], 16);
    EXPECT_LE(args["sequences"], 4);
    rows += args["rows"].get<std::int64_t>();
    prompt += args["prompt_tokens"].get<std::int64_t>();
    decode += args["decode_tokens"].get<std::int64_t>();
    generated += args["generated_tokens"].get<std::int64_t>();
  }
  EXPECT_EQ(generated, 8 * 20);
  EXPECT_EQ(rows, prompt + decode);
  EXPECT_GE(prompt, 8 * 20 + 7 * 8 / 2);  // more: preempted prompts ran again
  std::int64_t blocks = 0;
  for (const auto& [name, value] : last_counter.items()) blocks += value.get<std::int64_t>();
  EXPECT_EQ(blocks, 24);
}

TEST_F(StepTraceTest, BeginsAndEndsWhileTheEngineRuns) {
  EngineLimits limits = test::small_limits();
  limits.num_blocks = 64;
  FakeWorld world(limits);
  const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
  TraceFile first((folder / "first.json").string()), second((folder / "second.json").string());
  {
    Engine engine(world.parts(), limits, ModelInfo{kVocab, {}}, tokenizer);
    const auto answer = [&](const std::function<void()>& at_first_token) {
      Request request;
      for (int k = 0; k < 9; ++k) request.prompt.push_back(k % kVocab);
      request.sampling.temperature = 0;
      request.sampling.max_tokens = 20;
      Mailbox mailbox(1);
      engine.submit(std::move(request), mailbox.channel());
      std::vector<Delta> deltas;
      for (bool begun = false, ended = false; !ended;) {
        mailbox.wait_for(std::chrono::milliseconds(20), deltas);
        if (!deltas.empty() && !std::exchange(begun, true)) at_first_token();
        for (const Delta& delta : deltas) ended = ended || delta.finish != FinishReason::kNone;
      }
    };
    const auto nothing = [] {};
    answer(nothing);
    engine.trace_to(&first);
    answer(nothing);
    answer(nothing);
    engine.trace_to(nullptr);
    first.close();  // nothing more is written to it
    answer(nothing);
    answer([&] { engine.trace_to(&second); });
    engine.trace_to(nullptr);
    second.close();
  }
  const auto generated = [](const json& events) {
    std::int64_t sum = 0;
    for (const json& event : events) {
      if (event["name"] == "step") sum += event["args"]["generated_tokens"].get<std::int64_t>();
    }
    return sum;
  };
  const auto count = [](const json& events, const char* phase) {
    return std::ranges::count_if(events, [&](const json& event) { return event["ph"] == phase; });
  };
  const json whole = read_json(folder / "first.json"), part = read_json(folder / "second.json");
  EXPECT_EQ(generated(whole), 40);  // and not those of before
  EXPECT_EQ(count(whole, "b"), 2);
  EXPECT_EQ(count(whole, "e"), 2);
  EXPECT_EQ(count(part, "M"), 2);
  EXPECT_LT(generated(part), 20);
  EXPECT_LE(count(part, "b"), 1);  // the sequence that ran, unless it had ended by then
  EXPECT_EQ(count(part, "b"), count(part, "e"));
}

// Sees requests as submit() does.
struct Spy : RequestWatcher {
  Tap watch(Request& request) override {
    seeds.push_back(*request.sampling.seed);
    request.logprobs = 0;
    return [this](Delta& delta) {
      for (const TokenInfo& token : delta.tokens) with_logprobs += token.rank > 0 ? 1 : 0;
    };
  }
  std::vector<std::uint64_t> seeds;
  int with_logprobs = 0;
};

TEST(EngineHooks, AWatcherSeesTheSeedAndMayAskForLogProbabilities) {
  EngineLimits limits;
  limits.max_num_seqs = limits.max_batched_tokens = 4;
  limits.max_logit_rows = 4;
  limits.max_model_len = limits.block_size = 16;
  limits.num_blocks = 4;
  FakeWorld world(limits);
  Spy spy;
  std::uint64_t seed = 0;
  {
    EngineHooks hooks;
    hooks.watcher = &spy;
    const Tokenizer tokenizer = Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo");
    std::mutex mutex;
    std::condition_variable changed;
    bool ended = false;
    Engine engine(world.parts(), limits, ModelInfo{kVocab, {}}, tokenizer, hooks);
    Request refused;
    EXPECT_ANY_THROW(engine.submit(refused, [](const Delta&) {}));
    Request request;
    request.prompt = {1, 2, 3};
    request.sampling.max_tokens = 5;
    engine.submit(request, [&](const Delta& delta) {
      const std::lock_guard lock(mutex);
      seed = delta.seed;
      ended = delta.finish != FinishReason::kNone;
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ended; });
  }
  EXPECT_EQ(spy.seeds, std::vector<std::uint64_t>{seed});  // of the one that was not refused, and the one it ran with
  EXPECT_EQ(spy.with_logprobs, 5);
}

}  // namespace
}  // namespace mortise
