// plugins/kernels/cuda/rank_gather.hpp: the exchange between the GPUs of a tensor-parallel pipeline, which write and
// read each other's memory (over NVLink or PCIe, or the memory of the same GPU).
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace mortise::cuda {

constexpr std::int32_t kMaxRanks = 8;
constexpr std::int32_t kMostGatherBlocks = 64;
// The most bytes of a rank's columns that are pushed into the other ranks' memory. More are pulled from there.
constexpr std::int64_t kMostPushedBytes = std::int64_t{1} << 20;

// What a rank tells a thread block of another rank. In the memory of the rank that reads it.
struct RankMail {
  std::uint64_t x;      // where the sender's rows begin
  std::uint32_t ready;  // the sender's columns of exchange number `ready` are there
  std::uint32_t done;   // the sender has read the reader's columns of exchange number `done`
};

// Eight bytes of columns, and with each half the number of the exchange: a reader that sees the number has the half.
struct alignas(16) PushedLine {
  std::uint32_t low, low_number, high, high_number;
};

// In the memory of each rank; zero at first.
struct RankMailbox {
  RankMail mail[kMostGatherBlocks][kMaxRanks];  // by the sender's rank
  std::uint32_t exchanges;                      // how many are over
  std::uint32_t finished_blocks;                // of the running one
  std::uint32_t failed;                         // 1: an exchange has failed, so later ones do nothing
  std::uint32_t reserved;
  // Lines of odd and of even exchanges, by the sender's rank. Two are enough: a rank writes those of exchange n + 2
  // when it has the lines of n + 1, which the others write when they have read those of n.
  PushedLine lines[2][kMaxRanks][kMostPushedBytes / 8];
};

// In page-locked host memory, one for all ranks.
struct RankState {
  volatile std::int32_t aborted;    // set by the host: waiting kernels end
  volatile std::int32_t late_rank;  // set by a kernel that waited too long: the rank that did not come, + 1
};

// Shapes: rows [rows, bytes of a row], `stride` bytes apart. Rank r has bytes begin[r] .. begin[r + 1] - 1 of its own
//   rows, and this rank copies those of all others into its rows. All ranks launch it with the same shape, and with
//   rows that begin at a multiple of 16 bytes.
// Order: copies, nothing is summed.
// Cost: bound by the latency of the link, then by its bandwidth.
// Errors: cudaGetLastError() of the launch, never waits on the host, allocates nothing. On the GPU a kernel waits for
//   those of the other ranks, for at most `patience_ns`; then it sets late_rank.
// Source: lines with numbers are the protocol LL of NCCL; signals in the readers' memory are those of the one-shot
//   all-reduce of TensorRT-LLM and vLLM; the acquire and release of the PTX memory model.
// Oracle: the same copy on the host.
struct RankGatherArgs {
  std::int32_t rank, world;
  RankMailbox* mailboxes[kMaxRanks];
  RankState* state;  // as the GPU addresses it
  std::byte* x;
  std::int64_t rows, stride;
  std::int64_t begin[kMaxRanks + 1];
  std::uint64_t patience_ns;
};
cudaError_t launch_rank_gather(const RankGatherArgs& args, cudaStream_t stream);

}  // namespace mortise::cuda
