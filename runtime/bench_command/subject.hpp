// runtime/bench_command/subject.hpp: what is measured: a pipeline with its settings, opened, and what its work costs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench_command/device_probes.hpp"
#include "bench_command/model_cost.hpp"
#include "bench_command/peak.hpp"
#include "bench_command/random_model.hpp"
#include "bench_command/script_text.hpp"
#include "engine/engine.hpp"
#include "pipeline/pipeline_script.hpp"

namespace mortise::bench {

// Which pipeline: a script's, with another model if a shape is named, with some options changed.
struct SubjectChoice {
  std::string script;                 // empty: the demo, or with a shape one that suits benchmarks
  const ModelShape* shape = nullptr;  // random weights in place of the script's model
  // Random weights, of the target's vocabulary, in place of every draft model.
  const ModelShape* draft_shape = nullptr;
  std::vector<Setting> settings;
  std::function<void(PipelineDescription&)> change;  // of the pipeline, before the settings; may be empty
  ProductSizes probe_sizes;                          // of what a device with memory of its own is measured with

  std::string label() const;  // "160m (random weights), draft model tiny, model.weights=int8"
};

// The choice as a checked script. Throws an Error.
PipelineScript load_subject_script(const SubjectChoice& choice);

class Subject {
 public:
  // Opens it; the engine runs. Throws an Error.
  Subject(const SubjectChoice& choice, TraceFile* trace);

  const PipelineDescription& description() const { return script_.pipelines().front(); }
  const Assembly& assembly() const { return assembly_; }
  Engine& engine() { return engine_; }
  const ModelCost& cost() const { return cost_; }
  const mortise_device_info& device() const { return device_; }
  // What bounds its steps; null: nothing is known of its device.
  std::shared_ptr<LimitProbes> make_probes() const;

 private:
  PipelineScript script_;
  std::shared_ptr<DeviceStepProbes> device_probes_;  // null: its memory is the host's, or it computes no bf16
  Assembly assembly_;
  mortise_device_info device_;
  ModelCost cost_;
  Engine engine_;
};

// "cpu, amx, 2 threads"
std::string device_text(const mortise_device_info& info);

// The unit that the cpu device's instruction set ("amx", ...) multiplies weights of such a type in (MORTISE_I8:
// integers of 8 or 4 bits), if it is measured here.
std::optional<Unit> unit_of_isa(std::string_view isa, std::int32_t dtype);

}  // namespace mortise::bench
