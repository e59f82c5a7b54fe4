// mortise bench: named scenarios through the whole engine, as a table or as JSON.
//   decode   tokens/s of 1, 8 and 32 sequences that decode together, after their prompts are done
//   prefill  prompt tokens/s of 16 prompts of 1024 tokens
// Prompts are random tokens, end tokens are ignored, sampling is greedy.
#include <CLI/CLI.hpp>
#include <chrono>
#include <condition_variable>
#include <iostream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/commands.hpp"
#include "cli/session.hpp"
#include "error.hpp"

namespace mortise {
namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  std::int32_t num_requests = 1;
  std::int32_t prompt_tokens = 0;
  std::int32_t output_tokens = 0;
};

// When things happened, in seconds after submission.
struct Timing {
  double all_first_s = 0;  // every request had its first token
  double end_s = 0;
  std::int64_t tokens_after_first = 0;  // generated after all_first_s
};

std::vector<Request> make_requests(const Load& load, std::int32_t vocab_size) {
  std::mt19937 random(1);
  std::vector<Request> requests(static_cast<std::size_t>(load.num_requests));
  for (Request& request : requests) {
    for (std::int32_t i = 0; i < load.prompt_tokens; ++i) {
      request.prompt.push_back(static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(vocab_size)));
    }
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = load.output_tokens;
  }
  return requests;
}

Timing run_load(Engine& engine, const Load& load, std::int32_t vocab_size) {
  std::mutex mutex;
  std::condition_variable changed;
  Timing timing;
  std::int32_t num_started = 0, num_finished = 0;
  const auto start = Clock::now();
  for (Request& request : make_requests(load, vocab_size)) {
    engine.submit(std::move(request), [&, started = false](const Delta& delta) mutable {
      const std::lock_guard lock(mutex);
      const double now = std::chrono::duration<double>(Clock::now() - start).count();
      if (num_started == load.num_requests) timing.tokens_after_first += static_cast<std::int64_t>(delta.tokens.size());
      if (!std::exchange(started, true) && ++num_started == load.num_requests) timing.all_first_s = now;
      if (delta.finish == FinishReason::kNone) return;
      timing.end_s = now;
      if (++num_finished == load.num_requests) changed.notify_one();
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return num_finished == load.num_requests; });
  return timing;
}

// The best of several runs: neighbours on a shared machine only ever slow one down.
double best_rate(int repeats, const std::function<double()>& run) {
  double best = 0;
  for (int i = 0; i < repeats; ++i) best = std::max(best, run());
  return best;
}

struct BenchOptions {
  std::string scenario;
  SessionOptions session;
  std::vector<std::int32_t> batches = {1, 8, 32};
  int repeats = 3;
  bool json = false;
};

nlohmann::ordered_json decode(OpenPipeline& pipeline, const BenchOptions& options) {
  const std::int32_t vocab_size = pipeline.assembly.dims().vocab_size;
  auto rows = nlohmann::ordered_json::array();
  for (std::int32_t batch : options.batches) {
    const double rate = best_rate(options.repeats, [&] {
      const Timing timing = run_load(pipeline.engine, {batch, 16, 64}, vocab_size);
      return static_cast<double>(timing.tokens_after_first) / (timing.end_s - timing.all_first_s);
    });
    rows.push_back({{"scenario", "decode"}, {"batch", batch}, {"tokens_per_s", rate}});
  }
  return rows;
}

nlohmann::ordered_json prefill(OpenPipeline& pipeline, const BenchOptions& options) {
  const std::int32_t length = std::min(1024, pipeline.assembly.limits().max_model_len - 1);
  const double rate = best_rate(options.repeats, [&] {
    const Timing timing = run_load(pipeline.engine, {16, length, 1}, pipeline.assembly.dims().vocab_size);
    return 16.0 * length / timing.all_first_s;
  });
  return {{{"scenario", "prefill"}, {"batch", 16}, {"prompt_tokens", length}, {"tokens_per_s", rate}}};
}

void bench(const BenchOptions& options) {
  Session session(options.session);
  OpenPipeline& pipeline = session.pipeline();
  const nlohmann::ordered_json rows =
      options.scenario == "decode" ? decode(pipeline, options) : prefill(pipeline, options);
  session.close();
  if (options.json) {
    std::cout << rows.dump() << std::endl;
    return;
  }
  std::cout << "scenario  batch  tokens/s\n";
  for (const auto& row : rows) {
    std::cout << fmt::format("{:8}  {:5}  {:8.1f}\n", row["scenario"].get<std::string>(), row["batch"].get<int>(),
                             row["tokens_per_s"].get<double>());
  }
}

}  // namespace

void add_bench_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("bench", "measure the engine in a named scenario");
  const auto options = std::make_shared<BenchOptions>();
  command->add_option("scenario", options->scenario, "decode or prefill")
      ->required()
      ->check(CLI::IsMember({"decode", "prefill"}));
  add_session_options(*command, options->session);
  command->add_option("--batch", options->batches, "decode: sequences at a time (default 1,8,32)")->delimiter(',');
  command->add_option("--repeats", options->repeats, "runs, of which the best counts")->check(CLI::PositiveNumber);
  command->add_flag("--json", options->json, "print JSON instead of a table");
  command->callback([options] { bench(*options); });
}

}  // namespace mortise
