// plugins/devices/cpu/cpu_device.hpp: an instance of the CPU device: its kernels, threads and memory. Each pipeline has
// one.
#pragma once

#include <algorithm>

#include "devices/checks/weight.hpp"
#include "devices/cpu/machine.hpp"
#include "devices/cpu/pages.hpp"
#include "devices/cpu/thread_pool.hpp"
#include "devices/cpu/weight_cache.hpp"
#include "kernels/cpu/kernels.hpp"
#include "mortise/device.h"

struct mortise_device {
  // `world` devices share the processors.
  mortise_device(mortise::cpu::Isa isa, mortise::cpu::SumOrder order, int num_threads, bool packed_cache,
                 const mortise_host* host, int num_shards = 1, int world = 1)
      : isa(isa),
        order(order),
        num_shards(num_shards),
        kernels(mortise::cpu::kernels(isa)),
        bf16_kernels(mortise::cpu::bf16_kernels(isa, order)),
        memory_bytes(mortise::cpu::machine_memory().total_bytes),
        pool(num_threads, std::max(1, mortise::cpu::usable_cpus() / world)),
        weights(pages),
        scratch(pages),
        cache(packed_cache, host) {}

  const mortise::cpu::Isa isa;
  const mortise::cpu::SumOrder order;  // of the sums of bf16 models: the numerics class
  const int num_shards;                // its option: the number of ranks that the pipeline is to have
  const mortise::cpu::KernelTable& kernels;
  const mortise::cpu::Bf16Kernels& bf16_kernels;
  const uint64_t memory_bytes;  // the most memory that this process could hold
  mortise::cpu::ThreadPool pool;
  mortise::cpu::PageAllocator pages;
  mortise::cpu::WeightArena weights;
  mortise::cpu::ScratchBuffer scratch;  // for the operation that is running
  mortise::cpu::WeightCache cache;
};

// A prepared weight. Its memory is in the device's arena or in a file of packed weights. Constant once prepare_weight
// has returned it; any thread may read it.
struct mortise_weight {
  int32_t use;
  int32_t dtype;  // the type that the model computes in
  int64_t n, k;   // k = 1 for a vector
  bool packed;    // in the order of linear/pack.hpp, otherwise row-major
  void* data;
  std::shared_ptr<const mortise::cpu::PackedFile> file;  // the file that holds `data`; null: the arena holds it

  // Quantised with 8 or 4 bits: `data` holds the values in the order of linear_int/pack.hpp; scales, zero points and
  // order follow. E4M3 has no zero points and no order. E2M1 (MXFP4) has neither, and no scales: `zeros` has the biased
  // exponents of its groups. I8_BLOCK32 has block32_scales, minima if has_minima, and one zero point.
  int bits;                 // 0: not quantised
  std::int32_t value_type;  // 0: integers; MORTISE_F8_E4M3, MORTISE_F4_E2M1, MORTISE_I8_BLOCK32
  std::size_t group_size;
  const float* scales;
  const std::uint8_t* zeros;
  const std::int32_t* order;  // null: 0, 1, 2, ..
  std::int32_t zero;
  bool has_minima, half_scales;  // half: scales and minima are f16, otherwise f32
  const void *block32_scales, *minima;

  mortise::WeightShape shape() const { return {use, dtype, n, k, bits, value_type}; }

  // For vectors: f32 [n], followed by the same values as bf16 [n] if that is the dtype.
  float* vector() const { return static_cast<float*>(data); }
  mortise::cpu::Bf16* vector_bf16() const { return reinterpret_cast<mortise::cpu::Bf16*>(vector() + n); }
};
