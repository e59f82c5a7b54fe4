// memory: measures the largest memory of a process that runs prompts through the model, and of one that also scores all
// tokens of the prompts.
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>

#include "bench_command/child_process.hpp"
#include "bench_command/pipeline_files.hpp"
#include "bench_command/prefill_case.hpp"
#include "bench_command/scenarios.hpp"
#include "checkpoint/checkpoint.hpp"
#include "error.hpp"

namespace mortise::bench {
namespace {

struct MemoryLoad {
  std::int64_t batch, prompt;
  std::int32_t vocab_size;
};

// Writes a line of `mortise score`, or of `mortise batch`, for each prompt.
void write_lines(const std::filesystem::path& path, const MemoryLoad& load, bool score, std::uint32_t seed) {
  std::ofstream stream(path);
  const std::vector<SequenceShape> shapes(static_cast<std::size_t>(load.batch), {load.prompt, 1, 0});
  for (const Request& request : make_requests(shapes, load.vocab_size, seed)) {
    nlohmann::json line;
    if (score) {
      line = {{"prompt", std::vector<std::int32_t>{request.prompt.front()}}};
      line["completions"].push_back(std::vector<std::int32_t>(request.prompt.begin() + 1, request.prompt.end()));
    } else {
      line = {{"custom_id", ""}, {"method", "POST"}, {"url", "/v1/completions"}};
      line["body"] = {{"prompt", request.prompt}, {"max_tokens", 1}, {"temperature", 0}};
    }
    stream << line << '\n';
  }
  if (!(stream << std::flush)) {
    fail("{}: cannot be written; is the disk full? (TMPDIR can name another folder)", path.native());
  }
}

Case memory_case(const std::shared_ptr<const PipelineFiles>& files, const MemoryLoad& load, bool score) {
  Case out;
  out.name = fmt::format("{}, {} x {}", score ? "score" : "prefill", load.batch, load.prompt);
  out.unit = "MiB";
  out.higher_is_better = false;
  out.run = [files, load, score](std::uint32_t seed) {
    const std::filesystem::path in = files->folder.path() / "in.jsonl", result = files->folder.path() / "out.jsonl";
    write_lines(in, load, score, seed);
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    const std::uint64_t bytes = peak_bytes(
        program,
        {score ? "score" : "batch", files->script.string(), "-i", in.string(), "-o", result.string(), "--overwrite"},
        files->folder.path());
    return Outcome{static_cast<double>(bytes) / (1 << 20), ""};
  };
  return out;
}

}  // namespace

Scenario memory_scenario(const SubjectChoice& choice, const Sizes& sizes) {
  const std::shared_ptr<const PipelineFiles> files = write_pipeline_files(choice);
  const ModelConfig config = Checkpoint::open(files->model).config();
  MemoryLoad load{one_batch(sizes, 10), sizes.prompt.value_or(4000), 0};
  check_at_least(2, "--prompt", load.prompt);
  // A configuration without vocab_size gets 1 here, because no process can open its model anyway.
  load.vocab_size = static_cast<std::int32_t>(config.vocab_size.value_or(1));
  Scenario scenario{"memory", {}, {}, nullptr};
  scenario.cases.push_back(memory_case(files, load, /*score=*/false));
  scenario.cases.push_back(memory_case(files, load, /*score=*/true));
  scenario.relations.push_back({"score over prefill", 0, 1});
  return scenario;
}

}  // namespace mortise::bench
