#include "conformance/bench_work.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "conformance/device_bench.hpp"
#include "conformance/own_attention.hpp"
#include "conformance/proposer_driver.hpp"
#include "conformance/scheduler_driver.hpp"

namespace mortise::conformance {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

double microseconds(std::vector<double> seconds) {
  if (seconds.empty()) return 0;
  std::ranges::sort(seconds);
  return 1e6 * seconds[seconds.size() / 2];
}

void add_time(Json& figures, const std::string& what, const std::vector<double>& seconds) {
  figures[what] = Json::array({"us", microseconds(seconds)});
}

// A new request arrives whenever one ends, so the scheduler always knows `num_requests` requests.
void schedule(Subject& subject, std::size_t num_requests, Json& figures) {
  const auto part = subject.make_active();
  SimulatedEngine engine(guarded_calls(*part),
                         {.num_blocks = static_cast<std::int32_t>(40 * num_requests),
                          .token_budget = 512,
                          .seq_budget = 64,
                          .max_lookahead = 3,
                          .num_prefixes = 4},
                         1);
  const auto step = [&] {
    while (engine.num_live() < num_requests) engine.submit_random();
    engine.step();
  };
  for (int i = 0; i < 50; ++i) step();
  CallSeconds seconds;
  part->time_calls(&seconds);
  for (int i = 0; i < 300; ++i) step();
  part->time_calls(nullptr);
  add_time(figures, fmt::format("plan, {} requests", num_requests), seconds["plan"]);
}

// Replays texts that repeat parts of themselves. Drafts that agree with the text are accepted.
void propose(Subject& subject, Json& figures) {
  constexpr std::size_t kSequences = 16, kPrompt = 500, kSize = 1500;
  const auto part = subject.make_active();
  if (part->runners().num_opened() > 0) {
    fail("plugin bench does not measure a proposer with a draft model: `mortise bench` measures one in a pipeline");
  }
  ProposerDriver driver(*part);
  std::vector<Tokens> texts;
  std::vector<std::size_t> known(kSequences, kPrompt);
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < kSequences; ++i) {
    texts.push_back(repetitive_text(i, kSize));
    seen.push_back({i + 1, 0, Tokens(texts[i].begin(), texts[i].begin() + kPrompt)});
  }
  driver.observe(seen);
  CallSeconds seconds;
  part->time_calls(&seconds);
  double tokens = 0, turns = 0;
  const auto runs = [&](std::size_t i) { return known[i] < kSize; };
  for (;;) {
    std::vector<Wanted> wanted;
    for (std::size_t i = 0; i < kSequences; ++i) {
      if (runs(i)) wanted.push_back({i + 1, std::min(8, driver.max_drafts()), static_cast<std::int64_t>(known[i])});
    }
    if (wanted.empty()) break;
    const std::vector<Drafts> drafts = driver.propose(wanted);
    seen.clear();
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      const std::size_t i = wanted[k].id - 1;
      const Tokens& found = drafts[k].tokens;
      std::size_t accepted = 0;
      while (accepted < found.size() && known[i] + accepted < kSize &&
             found[accepted] == texts[i][known[i] + accepted]) {
        ++accepted;
      }
      const std::size_t end = std::min(known[i] + accepted + 1, kSize);
      const auto at = [&](std::size_t place) { return texts[i].begin() + static_cast<std::ptrdiff_t>(place); };
      seen.push_back({i + 1, static_cast<std::int32_t>(known[i]), Tokens(at(known[i]), at(end)),
                      static_cast<std::int32_t>(accepted)});
      tokens += static_cast<double>(end - known[i]);
      turns += 1;
      known[i] = end;
    }
    driver.observe(seen);
  }
  part->time_calls(nullptr);
  add_time(figures, "propose, 16 sequences of 500 to 1500 tokens", seconds["propose"]);
  add_time(figures, "observe, 16 sequences", seconds["observe"]);
  figures["tokens a step, text that repeats itself"] = Json::array({"tokens a step", tokens / turns});
}

void attend(Subject& subject, Json& figures) {
  AttentionShape shape;
  shape.num_heads = 16;
  shape.num_kv_heads = 4;
  shape.num_layers = 1;
  OwnAttention own(subject, shape);
  AttentionScene& scene = own.scene();
  const auto tokens = [](std::int32_t first, std::size_t count) {
    std::vector<std::int32_t> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = (first + 7 * static_cast<std::int32_t>(i)) % 500;
    return all;
  };
  std::vector<SceneRun> decodes;
  for (std::int32_t i = 0; i < 3; ++i) {
    const std::size_t sequence = scene.add(tokens(i, 1000));
    scene.prefill(sequence);
    decodes.push_back({sequence, 999, 1});
  }
  const std::size_t prompt = scene.add(tokens(50, 512));
  const auto measure = [&](const char* what, const std::vector<SceneRun>& runs, int steps) {
    CallSeconds seconds;
    scene.step(runs);  // the set-up in the first call of this size is not measured
    own.part().time_calls(&seconds);
    for (int i = 0; i < steps; ++i) scene.step(runs);
    own.part().time_calls(nullptr);
    for (const char* function : {"plan", "append", "run"}) {
      add_time(figures, fmt::format("{}, {}", function, what), seconds[function]);
    }
  };
  measure("decode of 3 sequences of 1000 tokens", decodes, 200);
  measure("prefill of 512 tokens", {{prompt, 0, 512}}, 20);
}

void operate(Subject& subject, Json& figures) {
  constexpr std::int64_t kColumns = 1024;
  constexpr double kMaxSeconds = 0.3;  // seconds for one operation
  in_each_type(subject, [&](const DeviceBench& bench) {
    const char* const type = bench.bf16() ? "bf16" : "f32";
    const DeviceWeight weight =
        prepare(bench.device, {MORTISE_WEIGHT_LINEAR, bench.dtype}, {bench.draw(kColumns, kColumns)});
    const DeviceWeight vector = prepare_vector(bench.device, bench.draw(1, kColumns));
    for (const std::int64_t rows : {1, 32, 256}) {
      const DeviceMatrix x(bench.device, bench.draw(rows, kColumns)), out(bench.device, bench.draw(rows, kColumns));
      const auto measure = [&](const char* what, const auto& call) {
        std::vector<double> seconds;
        double total = 0;
        // Makes up to 300 calls, fewer on a slow device, but at least 5. The first two only warm up.
        for (int i = 0; i < 300 && (i < 5 || total < kMaxSeconds); ++i) {
          const auto begin = Clock::now();
          bench.run(what, call);
          bench.run("stream_synchronize", [](const auto& table, auto* device, mortise_error* error) {
            return table.stream_synchronize(device, nullptr, error);
          });
          const double taken = std::chrono::duration<double>(Clock::now() - begin).count();
          total += taken;
          if (i >= 2) seconds.push_back(taken);
        }
        add_time(figures, fmt::format("{} in {}, {} rows of {}", what, type, rows, kColumns), seconds);
      };
      mortise_linear_args linear{};
      linear.struct_size = sizeof linear;
      linear.x = x.tensor();
      linear.weight = weight.get();
      linear.out = out.tensor();
      measure("linear", [&](const auto& table, auto* device, mortise_error* error) {
        return table.linear(device, nullptr, &linear, error);
      });
      mortise_norm_args norm{};
      norm.struct_size = sizeof norm;
      norm.x = x.tensor();
      norm.weight = vector.get();
      norm.out = out.tensor();
      norm.eps = kDeviceEps;
      measure("rms_norm", [&](const auto& table, auto* device, mortise_error* error) {
        return table.rms_norm(device, nullptr, &norm, error);
      });
    }
  });
}

}  // namespace

Json measured_work(Subject& subject) {
  Json figures = Json::object();
  switch (subject.component().kind) {
    case PartKind::kScheduler:
      for (const std::size_t requests : {16u, 256u}) schedule(subject, requests, figures);
      break;
    case PartKind::kProposer:
      propose(subject, figures);
      break;
    case PartKind::kAttention:
      attend(subject, figures);
      break;
    case PartKind::kDevice:
      operate(subject, figures);
      break;
    default:
      fail("there is no work for this kind");
  }
  return figures;
}

}  // namespace mortise::conformance
