// Weights are the a operand of the instruction (a panel of sixteen columns of y per warp). Their packed order is that
// of the operand, so they go from global memory to registers, one chunk ahead. Rows of q are the b operand; the warps
// of a block share them in shared memory.
#include "kernels/cuda/linear_int_mma.hpp"

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/int_rows.hpp"
#include "kernels/cuda/int_sums.cuh"
#include "kernels/cuda/mma.cuh"

namespace mortise::cuda {
namespace {

constexpr int kWarps = 4, kThreads = kWarps * 32;
constexpr int kStages = 3;              // chunks of q in shared memory
constexpr int kPitch = kIntChunk + 16;  // bytes, so that the eight rows of an ldmatrix are in different banks

struct MmaArgs {
  LinearIntArgs linear;
  IntRows rows;
  std::int64_t panel_bytes;
  std::int32_t chunks, chunk_bytes, column_group;  // column_group 0: one group a row
  const float* scales;                             // with one group a row
  const std::uint8_t* zeros;
};

template <int kBits>
constexpr int kVectors = kBits / 2;  // of 16 bytes for each lane in a chunk

// The values of a chunk for this lane.
template <int kBits>
__device__ __forceinline__ void load_values(const std::byte* chunk, int lane, uint4 (&w)[kVectors<kBits>]) {
#pragma unroll
  for (int i = 0; i < kVectors<kBits>; ++i) w[i] = __ldg(reinterpret_cast<const uint4*>(chunk + i * 512 + lane * 16));
}

// Requests chunk `chunk` of kRows rows of q. Rows behind the last are read too: the workspace has them.
template <int kRows>
__device__ __forceinline__ void request_rows(const MmaArgs& args, std::int64_t first_row, int chunk, std::uint32_t to) {
  constexpr int kUnits = kIntChunk / 16;
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kUnits; i += kThreads) {
    const int row = i / kUnits, unit = i % kUnits;
    copy_async(to + row * kPitch + unit * 16,
               args.rows.q + (first_row + row) * args.rows.row_bytes + chunk * kIntChunk + unit * 16);
  }
}

// A lane's sums: those of a group, and the f32 sums of the groups before. kTiles tiles of eight rows. A value of each
// thread. Invariant: acc is the f32 sum of the groups that end_group() has ended, in their order.
template <int kBits, int kTiles>
struct Sums {
  std::int32_t dot[kTiles][4] = {};
  float acc[kTiles][4] = {};

  // Step number `step` of a chunk; `q`: the lane's place in the rows of the chunk.
  __device__ __forceinline__ void add(const uint4 (&w)[kVectors<kBits>], std::uint32_t q, int step) {
    const uint4& v = w[kBits == 4 ? step / 2 : step];
    std::uint32_t a[4] = {v.x, v.y, v.z, v.w};
    if constexpr (kBits == 4) {
#pragma unroll
      for (std::uint32_t& word : a) word = (step % 2 == 0 ? word : word >> 4) & 0x0f0f0f0fu;
    }
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
      std::uint32_t x[2];
      load_two_matrices(x, q + tile * kTileRows * kPitch + step * kIntStep);
      mma_m16n8k32(dot[tile], a, x);
    }
  }

  // Ends the group number `group`, with the scales and zero points of the lane's two columns.
  __device__ __forceinline__ void end_group(const MmaArgs& args, std::int64_t first_row, std::int64_t group,
                                            const float (&scale)[2], const int (&zero)[2]) {
    const std::int32_t* sums = args.rows.sums;
    if (sums != nullptr) sums += group * args.rows.rows_padded + first_row;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        std::int32_t sum = dot[tile][j];
        // Stored bytes are value - 128, and nibbles the value.
        if (sums != nullptr) sum += ((kBits == 8 ? 128 : 0) - zero[j / 2]) * sums[row_of(tile * 4 + j)];
        acc[tile][j] = __fadd_rn(acc[tile][j], __fmul_rn(__int2float_rn(sum), scale[j / 2]));
        dot[tile][j] = 0;
      }
    }
  }

 private:
  // ldmatrix of two 8 x 8 matrices: rows of q, bytes 0 to 15 and 16 to 31 of the step.
  static __device__ __forceinline__ void load_two_matrices(std::uint32_t (&r)[2], std::uint32_t address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(r[0]), "=r"(r[1])
                 : "r"(address)
                 : "memory");
  }
};

template <int kBits, int kTiles>
__global__ void __launch_bounds__(kThreads) int_mma_kernel(const __grid_constant__ MmaArgs args) {
  constexpr int kRows = kTiles * kTileRows, kStageBytes = kRows * kPitch;
  __shared__ __align__(16) char memory[kStages * kStageBytes];
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.y) * kRows;
  const int tile = static_cast<int>(blockIdx.x) * kWarps + warp;  // of sixteen columns of y
  const std::int64_t panel = args.linear.first_column / kIntPanel + tile;
  const std::byte* const from = args.linear.w + panel * args.panel_bytes;
  const std::uint32_t at = shared_address(memory);
  const std::uint32_t q = at + lane % 8 * kPitch + lane / 8 % 2 * 16;
  const int k = static_cast<int>(args.linear.format.k), group_size = static_cast<int>(args.linear.format.group_size);
  const auto request = [&](int chunk) {
    if (chunk < args.chunks) request_rows<kRows>(args, first_row, chunk, at + chunk % kStages * kStageBytes);
    commit_copies();
  };
  Sums<kBits, kTiles> sums;
  uint4 w[kVectors<kBits>], next[kVectors<kBits>];
  load_values<kBits>(from, lane, next);
  for (int i = 0; i < kStages - 1; ++i) request(i);
  int in_group = 0;  // columns of the group that were added
  std::int64_t group = 0;
#pragma unroll 1
  for (int chunk = 0; chunk < args.chunks; ++chunk) {
    wait_for_copies<kStages - 2>();
    __syncthreads();  // the rows have arrived, and no warp needs those that are overwritten next
    request(chunk + kStages - 1);
#pragma unroll
    for (int i = 0; i < kVectors<kBits>; ++i) w[i] = next[i];
    const std::byte* const here = from + static_cast<std::int64_t>(chunk) * args.chunk_bytes;
    if (chunk + 1 < args.chunks) load_values<kBits>(here + args.chunk_bytes, lane, next);
    const std::uint32_t rows = q + chunk % kStages * kStageBytes;
#pragma unroll
    for (int step = 0; step < kIntSteps; ++step) {
      sums.add(w, rows, step);
      if (args.column_group == 0) continue;
      in_group += kIntStep;
      const int end = chunk * kIntChunk + (step + 1) * kIntStep;
      if (in_group < group_size && end < k) continue;
      if (end - kIntStep < k) {  // otherwise the group does not exist
        const std::byte* const set = here + kVectors<kBits> * 512 + step * kIntStep / args.column_group * kIntSetBytes;
        float scale[2];
        int zero[2];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          scale[half] = reinterpret_cast<const float*>(set)[column_of(2 * half)];
          zero[half] = static_cast<int>(set[4 * kIntPanel + column_of(2 * half)]);
        }
        sums.end_group(args, first_row, group++, scale, zero);
      }
      in_group = 0;
    }
  }
  if (args.column_group == 0) {
    const std::int64_t column = panel * kIntPanel;
    const float scale[2] = {args.scales[column + column_of(0)], args.scales[column + column_of(2)]};
    const int zero[2] = {args.zeros[column + column_of(0)], args.zeros[column + column_of(2)]};
    sums.end_group(args, first_row, 0, scale, zero);
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      write_one(args.linear, tile, column_of(j), static_cast<int>(first_row) + row_of(t * 4 + j), sums.acc[t][j],
                args.rows.scales);
    }
  }
}

bool needs_sums(const LinearIntArgs& args) {
  return args.format.bits == 4 || !args.symmetric;
}

}  // namespace

std::uint64_t mma_int_workspace_bytes(const LinearIntArgs& args) {
  return int_rows_bytes(args, needs_sums(args));
}

cudaError_t launch_linear_int_mma(const LinearIntArgs& args, void* workspace, cudaStream_t stream) {
  if (args.m == 0 || args.n == 0) return cudaSuccess;
  const IntLayout layout(args.format);
  MmaArgs all = {};
  all.linear = args;
  all.rows = int_rows_in(workspace, args, needs_sums(args));
  if (const cudaError_t error = launch_quantize_rows(args, all.rows, stream); error != cudaSuccess) return error;
  all.panel_bytes = layout.panel_bytes;
  all.chunks = static_cast<std::int32_t>(layout.chunks);
  all.chunk_bytes = static_cast<std::int32_t>(layout.chunk_bytes);
  all.column_group = layout.column_group;
  if (layout.whole) {
    all.scales = reinterpret_cast<const float*>(args.w + layout.scales);
    all.zeros = reinterpret_cast<const std::uint8_t*>(args.w + layout.zeros);
  }
  constexpr int kFew = 1, kMany = 8;  // tiles of rows
  const bool few = args.m <= kFew * kTileRows;
  const std::int64_t columns = kWarps * kIntPanel, rows = (few ? kFew : kMany) * kTileRows;
  const dim3 grid(static_cast<unsigned>((args.n + columns - 1) / columns),
                  static_cast<unsigned>((args.m + rows - 1) / rows));
  const auto kernel = args.format.bits == 4 ? (few ? int_mma_kernel<4, kFew> : int_mma_kernel<4, kMany>)
                                            : (few ? int_mma_kernel<8, kFew> : int_mma_kernel<8, kMany>);
  kernel<<<grid, kThreads, 0, stream>>>(all);
  return cudaGetLastError();
}

}  // namespace mortise::cuda
