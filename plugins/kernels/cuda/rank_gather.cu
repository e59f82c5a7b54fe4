// Few bytes are pushed: a rank writes its columns into the memory of the others, in lines that say which exchange they
// are of, and each reads its own memory until the lines are there. That takes one latency of the link. Many bytes are
// pulled: a rank says that its columns are there, and the others read them from its memory and say so. That takes three
// latencies and half as many bytes. Numbers of exchanges are counted in memory, so that a captured graph can be
// replayed.
#include <algorithm>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rank_gather.hpp"

namespace mortise::cuda {
namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kPulledBytesOfBlock = 64 * 1024;  // fewer are not worth a second block's signals
constexpr std::int64_t kPushedBytesOfThread = 16;
constexpr int kPollsOfHost = 8192;  // polls between two looks at the clock and the host's memory

__device__ __forceinline__ void release(std::uint32_t* to, std::uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(value) : "memory");
}

__device__ __forceinline__ std::uint32_t acquire(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}

__device__ __forceinline__ void write_line(PushedLine* to, uint2 data, std::uint32_t number) {
  asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(data.x), "r"(number), "r"(data.y),
               "r"(number)
               : "memory");
}

__device__ __forceinline__ bool read_line(const PushedLine* from, uint2& data, std::uint32_t number) {
  std::uint32_t low_number, high_number;
  asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(data.x), "=r"(low_number), "=r"(data.y), "=r"(high_number)
               : "l"(from)
               : "memory");
  return low_number == number && high_number == number;
}

__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  return now;
}

// Counts polls of a wait for another rank, and says when to give up.
class Patience {
 public:
  __device__ Patience(const RankGatherArgs& args, int other) : args_(args), other_(other) {}

  __device__ __forceinline__ bool ends() { return ++polls_ % kPollsOfHost == 0 && is_over(); }

 private:
  __device__ __noinline__ bool is_over() {
    if (args_.state->aborted != 0) return true;
    const std::uint64_t now = nanoseconds();
    if (begin_ == 0) begin_ = now;
    if (now - begin_ < args_.patience_ns) return false;
    args_.state->late_rank = other_ + 1;
    return true;
  }

  const RankGatherArgs& args_;
  const int other_;
  std::uint32_t polls_ = 0;
  std::uint64_t begin_ = 0;
};

__device__ __forceinline__ std::uint32_t peek(const std::uint32_t* from) {
  return *static_cast<const volatile std::uint32_t*>(from);
}

// The last thread block of the kernel counts the exchange. Every thread calls it.
__device__ void finish(RankMailbox& own, std::uint32_t number, bool failed) {
  const bool any_failed = __syncthreads_or(failed ? 1 : 0) != 0;
  if (threadIdx.x != 0) return;
  if (any_failed) own.failed = 1;
  if (gridDim.x == 1) {
    own.exchanges = number;
    return;
  }
  __threadfence();
  if (atomicAdd(&own.finished_blocks, 1u) != gridDim.x - 1) return;
  own.finished_blocks = 0;
  own.exchanges = number;
}

__global__ void __launch_bounds__(kThreads) push_columns(const __grid_constant__ RankGatherArgs args) {
  wait_for_kernel_before();
  let_next_kernel_begin();
  RankMailbox& own = *args.mailboxes[args.rank];
  const std::uint32_t number = peek(&own.exchanges) + 1;
  if (peek(&own.failed) != 0) return;
  const std::int64_t first = std::int64_t{blockIdx.x} * kThreads + threadIdx.x,
                     step = std::int64_t{gridDim.x} * kThreads;
  const auto units_of = [&](int rank) { return (args.begin[rank + 1] - args.begin[rank]) / 8; };
  const auto place = [&](int rank, std::int64_t units, std::int64_t i) {
    const std::int64_t row = i / units;
    return reinterpret_cast<uint2*>(args.x + row * args.stride + args.begin[rank] + (i - row * units) * 8);
  };
  const std::int64_t own_units = units_of(args.rank);
  for (std::int64_t i = first; i < own_units * args.rows; i += step) {
    const uint2 data = *place(args.rank, own_units, i);
    for (int k = 1; k < args.world; ++k) {
      const int other = (args.rank + k) % args.world;
      write_line(&args.mailboxes[other]->lines[number % 2][args.rank][i], data, number);
    }
  }
  bool failed = false;
  for (int k = 1; k < args.world; ++k) {
    const int other = (args.rank + args.world - k) % args.world;
    const std::int64_t units = units_of(other);
    const PushedLine* const lines = own.lines[number % 2][other];
    Patience patience(args, other);
    for (std::int64_t i = first; i < units * args.rows && !failed; i += step) {
      uint2 data;
      while (!read_line(&lines[i], data, number)) {
        if ((failed = patience.ends())) break;
      }
      if (!failed) *place(other, units, i) = data;
    }
  }
  finish(own, number, failed);
}

// Waits until *signal is `number`. Returns false if the exchange has failed.
__device__ bool wait_for(const std::uint32_t* signal, std::uint32_t number, const RankGatherArgs& args, int other) {
  Patience patience(args, other);
  while (acquire(signal) != number) {
    if (patience.ends()) return false;
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

__device__ bool is_multiple_of_16(const RankGatherArgs& args, int other) {
  return (args.stride | args.begin[other] | args.begin[other + 1]) % 16 == 0;
}

// Thread block b exchanges signals with thread block b of each other rank, and all of them copy the same part of the
// rows, so blocks need not wait for each other within a rank.
__global__ void __launch_bounds__(kThreads) pull_columns(const __grid_constant__ RankGatherArgs args) {
  __shared__ const std::byte* rows_of[kMaxRanks];
  wait_for_kernel_before();
  let_next_kernel_begin();
  RankMailbox& own = *args.mailboxes[args.rank];
  const int block = static_cast<int>(blockIdx.x), other = static_cast<int>(threadIdx.x);
  const bool signals = other < args.world && other != args.rank;
  const std::uint32_t number = peek(&own.exchanges) + 1;
  if (peek(&own.failed) != 0) return;
  RankMail* const theirs = signals ? &args.mailboxes[other]->mail[block][args.rank] : nullptr;
  RankMail* const mine = signals ? &own.mail[block][other] : nullptr;
  bool failed = false;
  if (signals) {
    *static_cast<volatile std::uint64_t*>(&theirs->x) = reinterpret_cast<std::uint64_t>(args.x);
    release(&theirs->ready, number);
    failed = !wait_for(&mine->ready, number, args, other);
    rows_of[other] = reinterpret_cast<const std::byte*>(*static_cast<volatile std::uint64_t*>(&mine->x));
  }
  failed = __syncthreads_or(failed ? 1 : 0) != 0;
  for (int i = 1; i < args.world && !failed; ++i) {  // each rank begins with its neighbour, so links are used evenly
    const int source = (args.rank + i) % args.world;
    if (is_multiple_of_16(args, source)) {
      copy_part<uint4>(args, source, rows_of[source]);
    } else {
      copy_part<std::uint16_t>(args, source, rows_of[source]);
    }
  }
  __syncthreads();
  if (signals && !failed) {
    release(&theirs->done, number);
    failed = !wait_for(&mine->done, number, args, other);
  }
  finish(own, number, failed);
}

// All ranks decide alike, because it follows from the shape.
bool is_pushed(const RankGatherArgs& args) {
  std::int64_t bits = args.stride, most = 0;
  for (int rank = 0; rank < args.world; ++rank) {
    bits |= args.begin[rank + 1];
    most = std::max(most, args.begin[rank + 1] - args.begin[rank]);
  }
  return bits % 8 == 0 && most * args.rows <= kMostPushedBytes;
}

}  // namespace

cudaError_t launch_rank_gather(const RankGatherArgs& args, cudaStream_t stream) {
  const std::int64_t bytes = args.rows * args.begin[args.world];
  const bool pushed = is_pushed(args);
  const std::int64_t of_block = pushed ? kPushedBytesOfThread * kThreads * args.world : kPulledBytesOfBlock;
  const std::int64_t blocks = std::clamp<std::int64_t>(bytes / of_block, 1, kMostGatherBlocks);
  return launch_overlapped(pushed ? push_columns : pull_columns, dim3(static_cast<unsigned>(blocks)), kThreads, 0,
                           stream, args);
}

}  // namespace mortise::cuda
