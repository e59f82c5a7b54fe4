// runtime/bench_command/subject.hpp: the subject of a measurement: an open pipeline with its settings, and the cost of
// its work.
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

// The choice of a pipeline: that of a script, with another model if a shape is given, and with changed options. A
// value; borrows the shapes.
struct SubjectChoice {
  std::string script;                 // empty: the demo, or with a shape a script for benchmarks
  const ModelShape* shape = nullptr;  // random weights instead of the script's model
  // If set, random weights with the target's vocabulary take the place of every draft model.
  const ModelShape* draft_shape = nullptr;
  std::vector<Setting> settings;
  std::function<void(PipelineDescription&)> change;  // changes the pipeline before the settings; may be empty
  ProductSizes probe_sizes;                          // for measuring a device with its own memory

  std::string label() const;  // "160m (random weights), draft model tiny, model.weights=int8"
};

// Returns the choice as a checked script. Throws an Error.
PipelineScript load_subject_script(const SubjectChoice& choice);

// An open pipeline with a running engine. Used by one thread. Invariant: the engine runs the parts of assembly_.
class Subject {
 public:
  // Opens the pipeline and starts its engine. Throws an Error.
  Subject(const SubjectChoice& choice, TraceFile* trace);

  const PipelineDescription& description() const { return script_.pipelines().front(); }
  const Assembly& assembly() const { return assembly_; }
  Engine& engine() { return engine_; }
  const ModelCost& cost() const { return cost_; }  // of several ranks: of one
  const mortise_device_info& device() const { return device_; }
  // Returns the limits of its steps; null: nothing is known about its device.
  std::shared_ptr<LimitProbes> make_probes() const;

 private:
  std::shared_ptr<LimitProbes> make_rank_probes() const;

  PipelineScript script_;
  std::shared_ptr<DeviceStepProbes> device_probes_;  // null: the device uses host memory, or does not compute in bf16
  Assembly assembly_;
  mortise_device_info device_;
  ModelCost cost_;
  Engine engine_;
};

// Returns a text such as "cpu, amx, 2 threads".
std::string device_text(const mortise_device_info& info);

// Returns the unit with which the cpu device's instruction set ("amx", ..) multiplies weights of this type (MORTISE_I8:
// integers of 8 or 4 bits), if the unit is measured here. A numerics id of class cpu-bf16-pairs/1 means VDPBF16PS.
std::optional<Unit> unit_of_isa(std::string_view isa, std::int32_t dtype, std::string_view numerics_id);

}  // namespace mortise::bench
