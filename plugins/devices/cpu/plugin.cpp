// The component: options, table, entry.
#include <algorithm>
#include <cstring>
#include <memory>

#include "devices/checks/environment.hpp"
#include "devices/cpu/collective.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"
#include "devices/cpu/ops.hpp"
#include "mortise/ext/parallel.h"
#include "mortise/plugin.hpp"

namespace mortise::cpu {
namespace {

constexpr char kOptionsSchema[] = R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "threads": {
      "title": "threads to compute on; 0: one for each processor that this process may use",
      "type": "integer", "minimum": 0, "maximum": 1024, "default": 0
    },
    "shards": {
      "title": "ranks that the model is cut for, with equal shares of the threads; no number of them changes a bit",
      "type": "integer", "minimum": 1, "maximum": 64, "default": 1
    },
    "isa": {
      "title": "instruction set; all give the same bits; the variable MORTISE_ISA overrides this option",
      "type": "string", "enum": ["auto", "amx", "avx512", "avx2", "neon", "portable"], "default": "auto"
    },
    "numerics": {
      "title": "order of the sums of bf16 models, which decides their bits: \"tiles\" (class cpu-bf16/1) or \"pairs\" (cpu-bf16-pairs/1); \"auto\": the faster one on this machine",
      "type": "string", "enum": ["auto", "tiles", "pairs"], "default": "auto"
    },
    "packed_cache": {
      "title": "keep the packed weights in a file beside the checkpoint, so that later starts need not pack them",
      "type": "boolean", "default": false
    }
  }
})";

// MORTISE_ISA beats the script's option, because a person sets it for a single run.
Isa chosen_isa(const Options& options) {
  std::string text;
  if (const std::optional<std::string> forced = device_environment::forced_isa()) {
    const auto isa = choose_isa(forced->c_str(), text);
    if (!isa) throw Failure(MORTISE_FAILED_PRECONDITION, "MORTISE_ISA", text);
    return *isa;
  }
  const auto name = options.has("isa") ? options.get<std::string>("isa") : std::string("auto");
  std::string names;
  for (const Isa isa : available_isas()) {
    if (name == isa_name(isa)) return isa;
    names += (names.empty() ? "" : ", ") + std::string(isa_name(isa));
  }
  if (name == "auto") return available_isas().back();
  throw Failure(MORTISE_FAILED_PRECONDITION, "isa",
                "this machine does not have " + name + "; it has " + names + "; \"auto\" chooses the best");
}

SumOrder chosen_order(const Options& options) {
  const auto name = options.has("numerics") ? options.get<std::string>("numerics") : std::string("auto");
  if (name == "tiles") return SumOrder::kTiles;
  return name == "pairs" ? SumOrder::kPairs : preferred_order();
}

// The ranks divide the threads. Each has at least one.
int chosen_threads(const Options& options, int rank, int world) {
  const int wanted = options.has("threads") ? options.get<int>("threads") : 0;
  const int threads = wanted > 0 ? wanted : usable_cpus();
  return std::max(1, threads / world + (rank < threads % world ? 1 : 0));
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, "cpu", [&] {
    const mortise_create_args known_args = known(args);
    const Options options(known_args);
    const int world = std::max(1, known_args.world);
    *instance = std::make_unique<mortise_device>(chosen_isa(options), chosen_order(options),
                                                 chosen_threads(options, known_args.rank, world),
                                                 options.has("packed_cache") && options.get<bool>("packed_cache"), host,
                                                 options.has("shards") ? options.get<int>("shards") : 1, world)
                    .release();
  });
}

void destroy(void* instance) {
  delete static_cast<mortise_device*>(instance);
}

int32_t num_threads(mortise_device* device) {
  return device->pool.num_threads();
}
void run(mortise_device* device, int32_t num_tasks, mortise_task task, void* context) {
  device->pool.run(num_tasks, task, context);
}
const char* isa(mortise_device* device) {
  return isa_name(device->isa);
}

constexpr mortise_parallel_table kParallel = {
    .struct_size = sizeof(mortise_parallel_table),
    .flags = 0,
    .num_threads = num_threads,
    .run = run,
    .isa = isa,
};

int32_t cache_enabled(mortise_device* device) {
  return device->cache.enabled() ? 1 : 0;
}
mortise_status open_cache(mortise_device* device, const mortise_weight_cache_args* args, mortise_error* error) {
  return guard(error, "open", [&] { device->cache.open(known(args), device->pool); });
}
void close_cache(mortise_device* device, int32_t loaded) {
  mortise_error ignored = make_error();  // cannot fail the call: every fault becomes a warning
  guard(&ignored, "close", [&] { device->cache.close(loaded != 0, device->pool); });
}

constexpr mortise_weight_cache_table kWeightCache = {
    .struct_size = sizeof(mortise_weight_cache_table),
    .flags = 0,
    .enabled = cache_enabled,
    .open = open_cache,
    .close = close_cache,
};

}  // namespace

mortise_status describe(mortise_device* device, mortise_device_info* info) {
  auto full = sized<mortise_device_info>();
  const std::string name = cpu_name();
  std::strncpy(full.name, name.c_str(), sizeof full.name - 1);
  std::strncpy(full.isa, isa_name(device->isa), sizeof full.isa - 1);
  full.num_threads = device->pool.num_threads();
  full.host_memory = 1;
  full.memory_bytes = device->memory_bytes;
  const uint32_t size = info->struct_size;
  std::memcpy(info, &full, std::min<std::size_t>(size, sizeof full));
  info->struct_size = size;
  return MORTISE_OK;
}

const char* numerics_id(mortise_device* device, int32_t dtype) {
  switch (dtype) {
    case MORTISE_BF16:
      return device->order == SumOrder::kPairs ? "cpu-bf16-pairs/1" : "cpu-bf16/1";
    case MORTISE_F32:
      return "cpu-f32/1";
    case MORTISE_I8:
      return "cpu-int8/1";
    case MORTISE_I8_BLOCK32:
      return "cpu-int8-block32/1";
    case MORTISE_F8_E4M3:
      return "cpu-fp8/1";
    case MORTISE_F4_E2M1:
      return "mxfp4/1";
    default:
      return nullptr;
  }
}

int32_t vocab_slice(mortise_device*) {
  return static_cast<int32_t>(kVocabSlice);
}

const void* get_ext(mortise_device*, const char* id) {
  if (std::strcmp(id, MORTISE_EXT_PARALLEL) == 0) return &kParallel;
  if (std::strcmp(id, MORTISE_EXT_REJECTION) == 0) return &kRejectionTable;
  if (std::strcmp(id, MORTISE_EXT_WEIGHT_CACHE) == 0) return &kWeightCache;
  if (std::strcmp(id, MORTISE_EXT_COLLECTIVE) == 0) return &kCollective;
  return nullptr;
}

namespace {

constexpr mortise_component kComponent = [] {
  mortise_component component =
      device_component("cpu", "the processors of this machine: AMX, AVX-512, AVX2 or portable code with the same bits",
                       kOptionsSchema, MORTISE_CAP_EXACT);
  component.create = create;
  component.destroy = destroy;
  return component;
}();

}  // namespace
}  // namespace mortise::cpu

MORTISE_PLUGIN("mortise.cpu", "Mortise", "0.1.0", "Apache-2.0", &mortise::cpu::kComponent)
