// startup: measures the time from the start of a process to its first token, with all files in the page cache.
#include "bench_command/child_process.hpp"
#include "bench_command/machine.hpp"
#include "bench_command/pipeline_files.hpp"
#include "bench_command/scenarios.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"

namespace mortise::bench {
namespace {

constexpr const char* kPrompt = "Once upon a time";

std::size_t threads_of(const PipelineScript& script) {
  const auto& options = script.pipelines().front().device.choices.front().options;
  const auto threads = options.find("threads");
  if (threads == options.end() || !threads->is_number_integer() || *threads == 0) return usable_processors();
  return threads->get<std::size_t>();
}

// Returns the limits of bringing the weights to the processors, or to a device with its own memory.
std::shared_ptr<LimitProbes> make_probes(const SubjectChoice& choice, double bytes) {
  const PipelineScript script = load_subject_script(choice);
  if (auto device = ProbedDevice::open(script.pipelines().front())) {
    return std::make_shared<UploadProbes>(std::move(device));
  }
  return std::make_shared<ProcessorProbes>(static_cast<std::size_t>(bytes), threads_of(script), std::nullopt);
}

double weight_file_bytes(const std::filesystem::path& model) {
  const Checkpoint checkpoint = Checkpoint::open(model);
  double bytes = 0;
  for (const auto& [name, view] : checkpoint.tensors()) bytes += static_cast<double>(view.bytes.size());
  return bytes;
}

}  // namespace

Scenario startup_scenario(const SubjectChoice& choice) {
  const std::shared_ptr<const PipelineFiles> files = write_pipeline_files(choice);
  const double bytes = weight_file_bytes(files->model);
  Case startup;
  startup.name = "start to first token";
  startup.unit = "s";
  startup.higher_is_better = false;
  startup.run = [files](std::uint32_t) {
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
    return Outcome{seconds_to_first_output(program,
                                           {"run", files->script.string(), "-p", kPrompt, "--max-tokens", "1",
                                            "--temperature", "0", "--ignore-eos"},
                                           files->folder.path()),
                   ""};
  };
  Scenario scenario{"startup", {}, {}, make_probes(choice, bytes)};
  // Each weight must be read once, or brought to its rank's device.
  const double share = bytes / scenario.probes->num_ranks();
  startup.floor = [share](const Limits& limits) { return floor_seconds({share, 0}, limits); };
  scenario.cases.push_back(std::move(startup));
  return scenario;
}

}  // namespace mortise::bench
