// serve: measures what `mortise serve` costs beside its engine: tokens/s of many streams, and the time to a first
// token, for an engine in this process and for a server with the same pipeline in another process. Servers at --url are
// measured beside them.
#include <memory>
#include <utility>

#include "bench_command/child_process.hpp"
#include "bench_command/http_load.hpp"
#include "bench_command/pipeline_files.hpp"
#include "bench_command/prefill_case.hpp"
#include "bench_command/scenarios.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

struct StreamLoad {
  std::int64_t streams;
  SequenceShape shape;
  std::int32_t vocab_size;

  std::vector<Request> requests(std::int64_t count, std::int64_t output, std::uint32_t seed) const {
    const SequenceShape one{shape.prompt, output, 0};
    return make_requests(std::vector<SequenceShape>(static_cast<std::size_t>(count), one), vocab_size, seed);
  }
};

// Returns the time to the first token and the total time of requests, on the engine or on a server.
using RunLoad = std::function<std::pair<double, double>(std::vector<Request>)>;

Case streams_case(const std::string& who, const StreamLoad& load, const RunLoad& run) {
  Case out;
  out.name = fmt::format("{}, {} streams", who, load.streams);
  out.unit = "tokens/s";
  out.run = [load, run](std::uint32_t seed) {
    const double end_s = run(load.requests(load.streams, load.shape.output, seed)).second;
    return Outcome{static_cast<double>(load.streams * load.shape.output) / end_s, ""};
  };
  return out;
}

// The figure is the mean over several requests, one after the other.
Case first_token_case(const std::string& who, const StreamLoad& load, const RunLoad& run) {
  constexpr std::uint32_t kTurns = 10;
  Case out;
  out.name = who + ", first token";
  out.unit = "ms";
  out.higher_is_better = false;
  out.run = [load, run](std::uint32_t seed) {
    double sum = 0;
    for (std::uint32_t turn = 0; turn < kTurns; ++turn) {
      sum += run(load.requests(1, 2, seed + (turn << 24))).first;
    }
    return Outcome{1000 * sum / kTurns, ""};
  };
  return out;
}

void add_cases(Scenario& scenario, const std::string& who, const StreamLoad& load, const RunLoad& run) {
  scenario.cases.push_back(streams_case(who, load, run));
  scenario.cases.push_back(first_token_case(who, load, run));
  const std::size_t at = scenario.cases.size() - 2;
  if (at == 0) return;
  scenario.relations.push_back({who + " over engine, streams", 0, at});
  scenario.relations.push_back({who + " over engine, first token", 1, at + 1});
}

RunLoad run_on_server(const std::string& url, const std::string& model) {
  return [address = parse_address(url), model](const std::vector<Request>& requests) {
    const StreamTimes times = run_streams(address, model, requests);
    return std::pair(times.all_first_s, times.end_s);
  };
}

}  // namespace

Scenario serve_scenario(const SubjectChoice& choice, const Sizes& sizes, const std::vector<std::string>& urls) {
  const std::shared_ptr<const PipelineFiles> files = write_pipeline_files(choice);
  SubjectChoice written;
  written.script = files->script.string();
  const auto subject = std::make_shared<Subject>(written, nullptr);
  const auto server = std::make_shared<BackgroundProcess>(
      std::filesystem::read_symlink("/proc/self/exe"),
      std::vector<std::string>{"serve", files->script.string(), "--port", "0"}, files->folder.path());

  const SequenceShape shape = sequence_of(*subject, sizes, 64, sizes.output.value_or(128));
  check_at_least(2, "--output", shape.output);
  const StreamLoad load{one_batch(sizes, 64), shape, subject->assembly().dims().vocab_size};
  Scenario scenario{"serve", {}, {}, nullptr};
  add_cases(scenario, "engine", load, [subject, files](std::vector<Request> requests) {
    const LoadResult result = run_load(subject->engine(), std::move(requests));
    return std::pair(result.all_first_s, result.end_s);
  });
  const std::string model = files->model.filename().string();
  add_cases(scenario, "mortise serve", load,
            [server, run = run_on_server(server->first_line(), model)](const std::vector<Request>& requests) {
              return run(requests);
            });
  for (const std::string& url : urls) add_cases(scenario, url, load, run_on_server(url, model));
  return scenario;
}

}  // namespace mortise::bench
