// The component: options, life of an instance, table, entry.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "devices/checks/environment.hpp"
#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/head_reduce.hpp"
#include "kernels/cuda/layer_tail.hpp"
#include "kernels/cuda/linear_fp8_many.hpp"
#include "kernels/cuda/linear_fp8_stream.hpp"
#include "kernels/cuda/linear_fp8_widened.hpp"
#include "kernels/cuda/linear_gated.hpp"
#include "kernels/cuda/linear_int4_many.hpp"
#include "kernels/cuda/linear_int4_stream.hpp"
#include "kernels/cuda/linear_int4_widened.hpp"
#include "kernels/cuda/linear_int_stream.hpp"
#include "kernels/cuda/linear_int_wide.hpp"
#include "kernels/cuda/linear_mma.hpp"
#include "kernels/cuda/linear_mxfp4_widened.hpp"
#include "kernels/cuda/linear_stream.hpp"
#include "kernels/cuda/linear_wide.hpp"
#include "kernels/cuda/rows.hpp"
#include "mortise/ext/tuning.h"

namespace mortise::cuda {
namespace {

constexpr char kOptionsSchema[] = R"({
  "type": "object",
  "additionalProperties": false,
  "properties": {
    "device": {
      "title": "number of the GPU, as in nvidia-smi and CUDA_VISIBLE_DEVICES",
      "type": "integer", "minimum": 0, "maximum": 1023, "default": 0
    },
    "devices": {
      "title": "numbers of the GPUs that the model is cut for, one for each rank; no number of them changes a bit; null: one rank on `device`",
      "type": ["array", "null"], "items": {"type": "integer", "minimum": 0, "maximum": 1023},
      "minItems": 1, "maxItems": 8, "uniqueItems": true, "default": null
    },
    "isa": {
      "title": "kernels; sm_80: those of compute capability 8, on any GPU; slower on a newer one, where they give the same bits; the variable MORTISE_CUDA_ISA overrides this option",
      "type": "string", "enum": ["auto", "sm_80"], "default": "auto"
    },
    "graphs": {
      "title": "run decode steps as captured graphs; without them the same bits, slower",
      "type": "boolean", "default": true
    },
    "tuning_cache": {
      "title": "keep the choice of matrix algorithms for later starts: in $XDG_CACHE_HOME/mortise or ~/.cache/mortise and beside the checkpoint, or in the folder that is named here",
      "type": ["boolean", "string"], "format": "path", "minLength": 1, "default": true
    }
  }
})";

constexpr char kWhere[] = "cuda";

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

// Says in one line why no GPU can be used.
[[noreturn]] void no_gpu(cudaError_t status) {
  int driver = 0;
  cudaDriverGetVersion(&driver);
  cudaGetLastError();
  std::string why;
  if (driver == 0) {
    why = "there is no NVIDIA driver on this machine";
  } else if (status == cudaErrorInsufficientDriver) {
    why = "the NVIDIA driver supports CUDA " + version_text(driver) + ", and this build needs " +
          version_text(CUDART_VERSION) + "; update the driver";
  } else if (status == cudaErrorNoDevice || status == cudaSuccess) {
    why = "the NVIDIA driver sees no GPU (is CUDA_VISIBLE_DEVICES set?)";
  } else {
    why = std::string("CUDA does not start: ") + cudaGetErrorString(status);
  }
  throw Failure(MORTISE_UNAVAILABLE, kWhere, why + "; the device cpu needs none");
}

// Returns the numbers of a JSON array of integers, which the schema has checked.
std::vector<int> integers_of(const std::string& json) {
  std::vector<int> numbers;
  for (const char* at = json.c_str(); *at != '\0';) {
    char* end = nullptr;
    const long number = std::strtol(at, &end, 10);
    if (end != at) numbers.push_back(static_cast<int>(number));
    at = end == at ? at + 1 : end;
  }
  return numbers;
}

TuningOption tuning_option(const Options& options) {
  if (options.is_text("tuning_cache")) return {true, options.get<std::string>("tuning_cache")};
  return {options.get<bool>("tuning_cache"), {}};
}

// MORTISE_CUDA_ISA beats the script's option, because a person sets it for a single run.
std::string chosen_isa(const Options& options) {
  if (const std::optional<std::string> forced = device_environment::forced_cuda_isa()) {
    if (*forced == "auto" || *forced == "sm_80") return *forced;
    throw Failure(MORTISE_FAILED_PRECONDITION, "MORTISE_CUDA_ISA", "'" + *forced + "' is unknown; use auto or sm_80");
  }
  return options.has("isa") ? options.get<std::string>("isa") : std::string("auto");
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, kWhere, [&] {
    const mortise_create_args known_args = known(args);
    const Options options(known_args);
    auto device = std::make_unique<mortise_device>();
    device->host = host;
    if (options.has("device")) device->ordinal = options.get<int>("device");
    if (options.has("devices")) {
      device->ordinals = integers_of(options.get_json("devices"));
      device->ordinal = device->ordinals.at(static_cast<std::size_t>(known_args.rank));
    }
    device->isa = chosen_isa(options);
    if (options.has("graphs")) device->graphs = options.get<bool>("graphs");
    if (options.has("tuning_cache")) device->tuning = tuning_option(options);
    *instance = device.release();
  });
}

void deactivate(void* instance) {
  auto* const device = static_cast<mortise_device*>(instance);
  if (device->stream == nullptr) return;
  native(device, nullptr);
  cudaStreamSynchronize(device->stream);
  device->reaper.reset();
  device->linear.reset();
  device->row_uploader.reset();
  device->uploader.reset();
  device->gated.release();
  device->quantized.release();
  device->widened.release();
  device->scratch.release();
  cudaStreamDestroy(device->stream);
  device->stream = nullptr;
}

void destroy(void* instance) {
  deactivate(instance);
  delete static_cast<mortise_device*>(instance);
}

void prepare_hopper_kernels() {
  check_cuda(prepare_stream_kernel(), kWhere);
  check_cuda(prepare_linear_gated_kernels(), kWhere);
  check_cuda(prepare_int_stream_kernels(), kWhere);
  check_cuda(prepare_int4_stream_kernels(), kWhere);
  check_cuda(prepare_int4_many_kernels(), kWhere);
  check_cuda(prepare_int4_widened_kernels(), kWhere);
  check_cuda(prepare_int_wide_kernels(), kWhere);
  check_cuda(prepare_fp8_stream_kernels(), kWhere);
  check_cuda(prepare_fp8_widened_kernels(), kWhere);
  check_cuda(prepare_fp8_many_kernels(), kWhere);
  check_cuda(prepare_wide_kernels(), kWhere);
  check_cuda(prepare_mxfp4_widened_kernels(), kWhere);
}

// Finds out what `describe` and `numerics_id` answer, which the host may call before the device is active. Finds
// nothing if there is no GPU, or if its kind is not served.
void look_up_gpu(mortise_device& device) {
  std::call_once(device.looked_up, [&device] {
    int count = 0;
    cudaDeviceProp properties = {};
    if (cudaGetDeviceCount(&count) != cudaSuccess || device.ordinal >= count ||
        cudaGetDeviceProperties(&properties, device.ordinal) != cudaSuccess) {
      cudaGetLastError();
      return;
    }
    device.name = properties.name;
    device.memory_bytes = properties.totalGlobalMem;
    try {
      device.gpu = gpu_class(device.name, properties.major, properties.minor, device.isa);
    } catch (const Failure&) {  // activate() says why
    }
  });
}

void open_gpu(mortise_device& device) {
  // In the background, because loading the library takes 80 ms of a processor, and so does the start of CUDA.
  const std::jthread library([] {
    std::string reason;
    load_cublaslt(reason);
  });
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) no_gpu(status);
  if (device.ordinal >= count) {
    throw Failure(MORTISE_NOT_FOUND, "device",
                  "there is no GPU " + std::to_string(device.ordinal) + "; this machine has " + std::to_string(count) +
                      ", counted from 0");
  }
  cudaDeviceProp properties = {};
  check_cuda(cudaGetDeviceProperties(&properties, device.ordinal), kWhere);
  look_up_gpu(device);
  gpu_class(properties.name, properties.major, properties.minor, device.isa);  // throws if the GPU is not served
  check_cuda(cudaSetDevice(device.ordinal), kWhere);
  check_cuda(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), kWhere);
  device.reaper = std::make_unique<Reaper>(device.ordinal);
  device.most_norm_columns = most_norm_columns(properties.sharedMemPerBlockOptin);
  check_cuda(prepare_row_kernels(device.most_norm_columns), kWhere);
  check_cuda(prepare_linear_kernels(), kWhere);
  if (device.gpu.kernels == KernelSet::kMma) return;
  prepare_hopper_kernels();
  bool fuses = false;
  check_cuda(prepare_layer_tail(fuses), kWhere);
  if (fuses) device.recorder.enable();
  device.linear =
      std::make_unique<LinearPlans>(device.name, properties.multiProcessorCount, device.host, device.tuning);
}

mortise_status activate(void* instance, const mortise_activate_args*, mortise_error* error) {
  const mortise_status status = guard(error, kWhere, [&] { open_gpu(*static_cast<mortise_device*>(instance)); });
  if (status != MORTISE_OK) deactivate(instance);
  return status;
}

mortise_status keep_tuning_beside(mortise_device* device, mortise_string_view folder, mortise_error* error) {
  return guard(error, "tuning", [&] {
    if (device->linear != nullptr) device->linear->add_checkpoint(view(folder));
  });
}

constexpr mortise_tuning_table kTuning = {
    .struct_size = sizeof(mortise_tuning_table),
    .flags = 0,
    .keep_beside = keep_tuning_beside,
};

}  // namespace

mortise_status describe(mortise_device* device, mortise_device_info* info) {
  look_up_gpu(*device);
  auto full = sized<mortise_device_info>();
  std::strncpy(full.name, device->name.c_str(), sizeof full.name - 1);
  std::strncpy(full.isa, device->gpu.isa(), sizeof full.isa - 1);
  full.memory_bytes = device->memory_bytes;
  const uint32_t size = info->struct_size;
  std::memcpy(info, &full, std::min<std::size_t>(size, sizeof full));
  info->struct_size = size;
  return MORTISE_OK;
}

const char* numerics_id(mortise_device* device, int32_t dtype) {
  look_up_gpu(*device);
  switch (dtype) {
    case MORTISE_BF16:
      return device->gpu.bf16;
    case MORTISE_I8:  // integer sums have no order, so quantised products have the CPU's bits
      return "cpu-int8/1";
    case MORTISE_F8_E4M3:
      return device->gpu.fp8;
    case MORTISE_F4_E2M1:
      return "mxfp4/1";
    default:
      return nullptr;
  }
}

int32_t vocab_slice(mortise_device*) {
  return kVocabSlice;
}

const void* get_ext(mortise_device* device, const char* id) {
  if (std::strcmp(id, MORTISE_EXT_TUNING) == 0) return &kTuning;
  if (std::strcmp(id, MORTISE_EXT_COLLECTIVE) == 0) return &kCollective;
  if (std::strcmp(id, MORTISE_EXT_REJECTION) == 0) return &kRejectionTable;
  return device->graphs && std::strcmp(id, MORTISE_EXT_GRAPH) == 0 ? &kGraphTable : nullptr;
}

namespace {

constexpr mortise_component kComponent = [] {
  mortise_component component =
      device_component("cuda", "an NVIDIA GPU of compute capability 8.0 to 9.0 (A100 to H200), in bf16", kOptionsSchema,
                       MORTISE_CAP_EXACT | MORTISE_CAP_CAPTURE);
  component.create = create;
  component.destroy = destroy;
  component.activate = activate;
  component.deactivate = deactivate;
  return component;
}();

}  // namespace
}  // namespace mortise::cuda

MORTISE_PLUGIN("mortise.cuda", "Mortise", "0.1.0", "Apache-2.0", &mortise::cuda::kComponent)
