#include "bench_command/subject.hpp"

#include <algorithm>

#include "assembly/default_script.hpp"
#include "bench_command/link_probe.hpp"
#include "bench_command/machine.hpp"
#include "environment.hpp"
#include "error.hpp"
#include "loader/part_instance.hpp"

namespace mortise::bench {
namespace {

// The script for shapes without one. It has a sequence for each request of the largest scenario, and blocks for all
// tokens.
constexpr const char* kShapeScript = R"(return pipeline {
  device    = cpu {},
  model     = llama { path = script_dir },  -- the shape's random weights take its place
  attention = paged { block_size = 16 },
  scheduler = fcfs { max_num_seqs = 256, max_batched_tokens = 2048 },
  kv_cache  = { memory = "2GiB" },
})";

PipelineScript load_script(const SubjectChoice& choice, const PluginCatalog& catalog) {
  if (!choice.script.empty()) return load_pipelines({&choice.script, 1}, catalog);
  if (choice.shape != nullptr) {
    return PipelineScript::from_text(kShapeScript, "bench", std::filesystem::current_path(), catalog);
  }
  return PipelineScript::load_demo(catalog);
}

// MORTISE_ISA beats the option isa, so the instruction set of the option would silently not be measured. Throws an
// Error in that case.
void check_environment(const SubjectChoice& choice) {
  const std::optional<std::string> forced = environment::read(environment::kIsa);
  if (!forced) return;
  for (const Setting& setting : choice.settings) {
    if (setting.part == "device" && setting.option == "isa") {
      fail("device.isa={}: MORTISE_ISA={} overrides it; unset that variable", setting.value.dump(), *forced);
    }
  }
}

std::int32_t num_ranks_of(const Assembly& assembly) {
  return static_cast<std::int32_t>(assembly.parts().further_ranks.size()) + 1;
}

// Returns the bytes that the attention keeps for a position in a layer on one rank, including scales.
double kv_bytes_of(const Assembly& assembly) {
  const double positions = static_cast<double>(assembly.limits().block_size) * assembly.dims().num_layers;
  return static_cast<double>(assembly.kv_bytes_per_block()) / (positions * num_ranks_of(assembly));
}

// Opens the device only for this question, because the weights are made before there is an assembly. Ranks with memory of
// their own are devices of one kind, and share the weights.
std::optional<std::uint64_t> available_memory_of(const PipelineDescription& description) {
  const PartChoice& choice = description.device.select(description.query());
  const PartInstance device(*choice.component, choice.options, CreateContext{});
  const auto available =
      available_memory(device.handle<mortise_device>(), *device.table<mortise_device_table>(), "/proc/meminfo");
  const auto part = device.active_part<mortise_device, mortise_device_table>();
  if (!available || shares_host_memory(part)) return available;
  return *available * static_cast<std::uint64_t>(num_ranks_of(part));
}

void check_memory(const SubjectChoice& choice, const PipelineDescription& description) {
  if (choice.shape == nullptr && choice.draft_shape == nullptr) return;
  const auto available = available_memory_of(description);
  if (!available) return;
  std::uint64_t taken = 0;
  if (choice.shape != nullptr) {
    taken = check_fits_memory(*choice.shape, description.model.choices.front().options, *available);
  }
  if (choice.draft_shape != nullptr) check_draft_fits_memory(*choice.draft_shape, *available - taken);
}

std::optional<ModelFiles> files_of(const SubjectChoice& choice, const PipelineDescription& description) {
  check_memory(choice, description);
  return choice.shape == nullptr ? std::nullopt : std::optional(make_random_model(*choice.shape));
}

// With a draft shape, every draft model has that shape, whatever folder its proposer names.
FileOpener draft_opener_of(const SubjectChoice& choice, const PipelineDescription& description) {
  if (choice.draft_shape == nullptr) return ModelFiles::open;
  const auto target_tokenizer = [shape = choice.shape, options = description.model.choices.front().options] {
    return shape != nullptr ? make_tokenizer(*shape) : Tokenizer::load(options.at("path").get<std::string>());
  };
  return [target_tokenizer, shape = choice.draft_shape](const std::filesystem::path&) {
    return make_random_draft(*shape, target_tokenizer());
  };
}

mortise_device_info info_of(const DevicePart& device) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  device.value<&mortise_device_table::describe>("describe", mortise_status{MORTISE_INTERNAL}, &info);
  return info;
}

// Of several ranks, which are devices of one kind: memory and threads of all together.
mortise_device_info describe_device(const Parts& parts) {
  mortise_device_info all{};
  for (const ShardParts& shard : parts.shards()) {
    mortise_device_info info = info_of(shard.device);
    info.num_threads += all.num_threads;
    if (info.host_memory == 0) info.memory_bytes += all.memory_bytes;
    all = info;
  }
  return all;
}

// Returns the share of all threads that the rank with the fewest has.
double least_thread_share(const Parts& parts, std::int32_t all_threads) {
  if (parts.further_ranks.empty()) return 1;
  std::int32_t least = all_threads;
  for (const ShardParts& shard : parts.shards()) least = std::min(least, info_of(shard.device).num_threads);
  return static_cast<double>(least) / all_threads;
}

ModelCost cost_of(const Assembly& assembly) {
  return model_cost(assembly.checkpoint(), assembly.dims(), kv_bytes_of(assembly), num_ranks_of(assembly));
}

std::shared_ptr<DeviceStepProbes> device_probes_of(const PipelineDescription& description, const ProductSizes& sizes) {
  auto device = ProbedDevice::open(description);
  return device == nullptr ? nullptr : std::make_shared<DeviceStepProbes>(std::move(device), sizes);
}

EngineHooks hooks_with(TraceFile* trace, const std::string& pipeline) {
  EngineHooks hooks;
  hooks.trace = trace;
  hooks.name = "pipeline " + pipeline;
  return hooks;
}

}  // namespace

std::string SubjectChoice::label() const {
  std::string text = shape != nullptr ? fmt::format("{} (random weights)", shape->name) : "";
  if (!script.empty()) text += (text.empty() ? "" : " in ") + script;
  if (text.empty()) text = "demo";
  if (draft_shape != nullptr) text += fmt::format(", draft model {}", draft_shape->name);
  for (const Setting& setting : settings) {
    text += fmt::format(", {}.{}={}", setting.part, setting.option,
                        setting.value.is_string() ? setting.value.get<std::string>() : setting.value.dump());
  }
  return text;
}

PipelineScript load_subject_script(const SubjectChoice& choice) {
  check_environment(choice);
  const PluginCatalog catalog = PluginCatalog::standard();
  PipelineScript script = load_script(choice, catalog);
  if (choice.settings.empty() && !choice.change) return script;
  PipelineDescription pipeline = script.pipelines().front();
  if (choice.change) choice.change(pipeline);
  const std::string text = script_text(pipeline, choice.settings, catalog);
  return PipelineScript::from_text(text, "settings", std::filesystem::current_path(), catalog);
}

Subject::Subject(const SubjectChoice& choice, TraceFile* trace)
    : script_(load_subject_script(choice)),
      device_probes_(device_probes_of(description(), choice.probe_sizes)),
      assembly_(description(), files_of(choice, description()), draft_opener_of(choice, description())),
      device_(describe_device(assembly_.parts())),
      cost_(cost_of(assembly_)),
      engine_(assembly_.parts(), assembly_.limits(), assembly_.model_info(), assembly_.tokenizer(),
              hooks_with(trace, description().name)) {}

std::string device_text(const mortise_device_info& info) {
  std::string text = fmt::format("{}, {}", info.name, info.isa);
  if (info.num_threads > 0) text += fmt::format(", {} thread{}", info.num_threads, info.num_threads == 1 ? "" : "s");
  return text;
}

std::shared_ptr<LimitProbes> Subject::make_probes() const {
  std::shared_ptr<LimitProbes> rank = make_rank_probes();
  if (rank == nullptr || num_ranks_of(assembly_) == 1) return rank;
  return std::make_shared<RankProbes>(std::move(rank), assembly_.parts(), assembly_.dims(),
                                      assembly_.limits().max_batched_tokens);
}

std::shared_ptr<LimitProbes> Subject::make_rank_probes() const {
  const mortise_model_dims& dims = assembly_.dims();
  if (device_.host_memory == 0) {
    if (device_probes_ && (dims.dtype != MORTISE_BF16 || dims.weight_bits != 0)) device_probes_->leave_out_products();
    return device_probes_;
  }
  const std::int32_t weights = weight_class(dims);
  const bool integers = dims.weight_bits != 0 && (weights == MORTISE_I8 || weights == MORTISE_I8_BLOCK32);
  const std::int32_t threads = std::max(device_.num_threads, 1);
  // As many bytes as a step reads, so that a model that fits a cache is compared with the cache.
  return std::make_shared<ProcessorProbes>(
      static_cast<std::size_t>(cost_.weight_bytes * num_ranks_of(assembly_)), static_cast<std::size_t>(threads),
      unit_of_isa(device_.isa, integers ? weights : dims.dtype, assembly_.numerics_id()),
      least_thread_share(assembly_.parts(), threads));
}

std::optional<Unit> unit_of_isa(std::string_view isa, std::int32_t dtype, std::string_view numerics_id) {
  const auto available = [](Unit unit) {
    const auto& units = available_units();
    return std::find(units.begin(), units.end(), unit) != units.end() ? std::optional(unit) : std::nullopt;
  };
  const bool integers = dtype == MORTISE_I8 || dtype == MORTISE_I8_BLOCK32;
  const bool pairs = dtype == MORTISE_BF16 && numerics_id.starts_with("cpu-bf16-pairs/");
  if (pairs && (isa == "amx" || isa == "avx512") && available(Unit::kAvx512Bf16)) {
    return faster_of(Unit::kAvx512Bf16, Unit::kAvx512Fma);
  }
  if (isa == "amx" && dtype == MORTISE_BF16 && !pairs) return available(Unit::kAmxBf16);
  if (isa == "amx" && integers) return available(Unit::kAmxInt8);
  // AMX tiles have no f32 and do not add in pairs.
  if (isa == "amx" || isa == "avx512") return available(integers ? Unit::kAvx512Int8 : Unit::kAvx512Fma);
  if (isa == "avx2") return available(integers ? Unit::kAvx2Int8 : Unit::kAvx2Fma);
  if (isa == "neon") return available(integers ? Unit::kNeonInt8 : Unit::kNeonFma);
  // Portable code has no arithmetic unit of its own. Its floor is what AVX2 or NEON can do, or plain f32 without them.
  if (isa == "portable" && !integers) {
    return available(Unit::kAvx2Fma).value_or(available(Unit::kNeonFma).value_or(Unit::kF32));
  }
  return std::nullopt;
}

}  // namespace mortise::bench
