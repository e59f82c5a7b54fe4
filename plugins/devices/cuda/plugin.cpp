// The component: options, life of an instance, table, entry.
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "devices/cuda/cublaslt.hpp"
#include "devices/cuda/cuda_device.hpp"
#include "devices/cuda/errors.hpp"
#include "devices/cuda/ops.hpp"
#include "kernels/cuda/head_reduce.hpp"
#include "kernels/cuda/linear_fp8_stream.hpp"
#include "kernels/cuda/linear_fp8_wide.hpp"
#include "kernels/cuda/linear_fp8_widened.hpp"
#include "kernels/cuda/linear_int4_stream.hpp"
#include "kernels/cuda/linear_int4_widened.hpp"
#include "kernels/cuda/linear_int_stream.hpp"
#include "kernels/cuda/linear_int_wide.hpp"
#include "kernels/cuda/linear_mma.hpp"
#include "kernels/cuda/linear_stream.hpp"
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

TuningOption tuning_option(const Options& options) {
  if (options.is_text("tuning_cache")) return {true, options.get<std::string>("tuning_cache")};
  return {options.get<bool>("tuning_cache"), {}};
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  return guard(error, kWhere, [&] {
    const Options options(known(args));
    auto device = std::make_unique<mortise_device>();
    device->host = host;
    if (options.has("device")) device->ordinal = options.get<int>("device");
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
  device->scratch.release();
  cudaStreamDestroy(device->stream);
  device->stream = nullptr;
}

void destroy(void* instance) {
  deactivate(instance);
  delete static_cast<mortise_device*>(instance);
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
  device.name = properties.name;
  device.compute_major = properties.major;
  device.compute_minor = properties.minor;
  device.memory_bytes = properties.totalGlobalMem;
  if (properties.major != 9 || properties.minor != 0) {
    throw Failure(MORTISE_UNIMPLEMENTED, kWhere,
                  device.name + " has compute capability " + std::to_string(properties.major) + "." +
                      std::to_string(properties.minor) + "; this build has kernels only for 9.0 (H100, H200)");
  }
  check_cuda(cudaSetDevice(device.ordinal), kWhere);
  check_cuda(cudaStreamCreateWithFlags(&device.stream, cudaStreamNonBlocking), kWhere);
  device.reaper = std::make_unique<Reaper>(device.ordinal);
  check_cuda(prepare_row_kernels(), kWhere);
  check_cuda(prepare_linear_kernels(), kWhere);
  check_cuda(prepare_stream_kernel(), kWhere);
  check_cuda(prepare_int_stream_kernels(), kWhere);
  check_cuda(prepare_int4_stream_kernels(), kWhere);
  check_cuda(prepare_int4_widened_kernels(), kWhere);
  check_cuda(prepare_int_wide_kernels(), kWhere);
  check_cuda(prepare_fp8_stream_kernels(), kWhere);
  check_cuda(prepare_fp8_widened_kernels(), kWhere);
  check_cuda(prepare_fp8_wide_kernels(), kWhere);
  device.linear =
      std::make_unique<LinearPlans>(device.name, properties.multiProcessorCount, device.host, device.tuning);
}

mortise_status activate(void* instance, const mortise_activate_args*, mortise_error* error) {
  const mortise_status status = guard(error, kWhere, [&] { open_gpu(*static_cast<mortise_device*>(instance)); });
  if (status != MORTISE_OK) deactivate(instance);
  return status;
}

mortise_status keep_tuning_beside(mortise_device* device, mortise_string_view folder, mortise_error* error) {
  return guard(error, "tuning", [&] { device->linear->add_checkpoint(view(folder)); });
}

constexpr mortise_tuning_table kTuning = {
    .struct_size = sizeof(mortise_tuning_table),
    .flags = 0,
    .keep_beside = keep_tuning_beside,
};

}  // namespace

mortise_status describe(mortise_device* device, mortise_device_info* info) {
  auto full = sized<mortise_device_info>();
  std::strncpy(full.name, device->name.c_str(), sizeof full.name - 1);
  const std::string isa = "sm_" + std::to_string(device->compute_major) + std::to_string(device->compute_minor);
  std::strncpy(full.isa, isa.c_str(), sizeof full.isa - 1);
  full.memory_bytes = device->memory_bytes;
  const uint32_t size = info->struct_size;
  std::memcpy(info, &full, std::min<std::size_t>(size, sizeof full));
  info->struct_size = size;
  return MORTISE_OK;
}

const char* numerics_id(mortise_device*, int32_t dtype) {
  switch (dtype) {
    case MORTISE_BF16:
      return "cuda-bf16/1";
    case MORTISE_I8:  // integer sums have no order, so quantised products have the CPU's bits
      return "cpu-int8/1";
    case MORTISE_F8_E4M3:
      return "cuda-fp8/1";
    default:
      return nullptr;
  }
}

int32_t vocab_slice(mortise_device*) {
  return kVocabSlice;
}

const void* get_ext(mortise_device* device, const char* id) {
  if (std::strcmp(id, MORTISE_EXT_TUNING) == 0) return &kTuning;
  return device->graphs && std::strcmp(id, MORTISE_EXT_GRAPH) == 0 ? &kGraphTable : nullptr;
}

namespace {

constexpr mortise_component kComponent = [] {
  mortise_component component =
      device_component("cuda", "an NVIDIA GPU of compute capability 9.0 (H100, H200), in bf16", kOptionsSchema,
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
