// Thread block b of a rank exchanges signals with thread block b of each other rank, and all of them copy the same part
// of the rows, so blocks need not wait for each other within a rank. The kernel's start says that the rank's columns
// are there, and its end that all others have read them. Numbers of exchanges are counted in memory, so that a captured
// graph can be replayed.
#include <algorithm>

#include "kernels/cuda/rank_gather.hpp"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kBytesOfBlock = 64 * 1024;  // fewer are not worth a second block's signals
constexpr int kPollsOfHost = 4096;                 // polls between two looks at the clock and the host's memory

__device__ __forceinline__ void release(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t acquire(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Waits until *signal is `number`. Returns false if the exchange has failed.
__device__ bool wait_for(const std::uint32_t* signal, std::uint32_t number, const RankGatherArgs& args, int other) {
  const std::uint64_t begin = nanoseconds();
  for (int polls = 1; acquire(signal) != number; ++polls) {
    if (polls % kPollsOfHost != 0) continue;
    if (args.state->aborted != 0) return false;
    if (nanoseconds() - begin < args.patience_ns) continue;
    args.state->late_rank = other + 1;
    return false;
  }
  return true;
}

template <class Unit>
__device__ void copy_part(const RankGatherArgs& args, int other, const std::byte* theirs) {
  const std::int64_t begin = args.begin[other], units = (args.begin[other + 1] - begin) / sizeof(Unit);
  const std::int64_t all = units * args.rows;
  const std::int64_t step = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t i = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; i < all; i += step) {
    const std::int64_t row = i / units;
    const std::int64_t at = row * args.stride + begin + (i - row * units) * static_cast<std::int64_t>(sizeof(Unit));
    *reinterpret_cast<Unit*>(args.x + at) = *reinterpret_cast<const Unit*>(theirs + at);
  }
}

// Whether rows can be copied in units of 16 bytes.
__device__ bool is_aligned(const RankGatherArgs& args, int other, const std::byte* theirs) {
  const auto bits = reinterpret_cast<std::uintptr_t>(args.x) | reinterpret_cast<std::uintptr_t>(theirs) |
                    static_cast<std::uintptr_t>(args.stride) | static_cast<std::uintptr_t>(args.begin[other]) |
                    static_cast<std::uintptr_t>(args.begin[other + 1]);
  return bits % 16 == 0;
}

__global__ void __launch_bounds__(kThreads) rank_gather(const RankGatherArgs args) {
  __shared__ const std::byte* rows_of[kMaxRanks];
  __shared__ bool failed;
  GatherMailbox& own = *args.mailboxes[args.rank];
  const int block = static_cast<int>(blockIdx.x), other = static_cast<int>(threadIdx.x);
  const bool signals = other < args.world && other != args.rank;
  if (threadIdx.x == 0) failed = *static_cast<volatile std::uint32_t*>(&own.failed) != 0;
  __syncthreads();
  if (failed) return;
  const std::uint32_t number = own.exchanges[block] + 1;
  GatherMail* const theirs = signals ? &args.mailboxes[other]->mail[block][args.rank] : nullptr;
  GatherMail* const mine = signals ? &own.mail[block][other] : nullptr;
  if (signals) {
    *static_cast<volatile std::uint64_t*>(&theirs->x) = reinterpret_cast<std::uint64_t>(args.x);
    release(&theirs->ready, number);
    if (!wait_for(&mine->ready, number, args, other)) failed = true;
    rows_of[other] = reinterpret_cast<const std::byte*>(*static_cast<volatile std::uint64_t*>(&mine->x));
  }
  __syncthreads();
  if (!failed) {
    for (int i = 1; i < args.world; ++i) {  // each rank begins with its neighbour, so that links are used evenly
      const int source = (args.rank + i) % args.world;
      if (is_aligned(args, source, rows_of[source])) {
        copy_part<uint4>(args, source, rows_of[source]);
      } else {
        copy_part<std::uint16_t>(args, source, rows_of[source]);
      }
    }
  }
  __syncthreads();
  if (signals && !failed) {
    release(&theirs->done, number);
    if (!wait_for(&mine->done, number, args, other)) failed = true;
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  if (failed) own.failed = 1;
  own.exchanges[block] = number;
}

}  // namespace

cudaError_t launch_rank_gather(const RankGatherArgs& args, cudaStream_t stream) {
  const std::int64_t bytes = args.rows * args.begin[args.world];
  const std::int64_t blocks = std::clamp<std::int64_t>(bytes / kBytesOfBlock, 1, kMostGatherBlocks);
  rank_gather<<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(args);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
