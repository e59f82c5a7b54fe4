// plugins/kernels/cuda/rank_gather.hpp: the exchange between the GPUs of a tensor-parallel pipeline: each rank reads
// the columns of the others from their memory (over NVLink or PCIe, or the memory of the same GPU).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

constexpr std::int32_t kMaxRanks = 8;
constexpr std::int32_t kMostGatherBlocks = 64;

// What a rank tells a thread block of another rank. In the memory of the rank that reads it.
struct GatherMail {
  std::uint64_t x;      // where the sender's rows begin
  std::uint32_t ready;  // the sender's columns of exchange number `ready` are there
  std::uint32_t done;   // the sender has read the reader's columns of exchange number `done`
};

// In the memory of each rank; zero at first.
struct GatherMailbox {
  GatherMail mail[kMostGatherBlocks][kMaxRanks];  // by the sender's rank
  std::uint32_t exchanges[kMostGatherBlocks];     // how many each thread block has completed
  std::uint32_t failed;                           // 1: an exchange has failed, so later ones do nothing
};

// In page-locked host memory, one for all ranks.
struct GatherState {
  volatile std::int32_t aborted;    // set by the host: waiting kernels end
  volatile std::int32_t late_rank;  // set by a kernel that waited too long: the rank that did not come, + 1
};

// Shapes: rows [rows, bytes of a row], `stride` bytes apart. Rank r has bytes begin[r] .. begin[r + 1] - 1 of its own
//   rows, and this rank copies those of all others into its rows. All ranks launch it with the same shape.
// Order: copies, nothing is summed.
// Cost: link bound.
// Errors: cudaGetLastError() of the launch, never waits on the host, allocates nothing. On the GPU a kernel waits for
//   those of the other ranks, before and after the copy, for at most `patience_ns`; then it sets late_rank.
// Source: signals in the readers' memory as in the one-shot all-reduce of vLLM and TensorRT-LLM; the acquire and
// release
//   of the PTX memory model.
// Oracle: the same copy on the host.
struct RankGatherArgs {
  std::int32_t rank, world;
  GatherMailbox* mailboxes[kMaxRanks];
  GatherState* state;  // as the GPU addresses it
  std::byte* x;
  std::int64_t rows, stride;
  std::int64_t begin[kMaxRanks + 1];
  std::uint64_t patience_ns;
};
cudaError_t launch_rank_gather(const RankGatherArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda
