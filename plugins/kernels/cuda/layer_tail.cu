// Strip i of a product (sixteen columns) belongs to block i % 16 of the cluster. A block has all weights of its strips
// in shared memory. Every block needs all columns of a result, so each warp sends its columns to all blocks, by
// st.async: the copy itself reports to a barrier of the block that receives it. Every block computes both norms.
#include "kernels/cuda/layer_tail.hpp"

#include "kernels/cuda/lanes.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear_stream.cuh"
#include "kernels/cuda/linear_stream.hpp"
#include "kernels/cuda/vectors.cuh"

namespace mortise::cuda {
namespace {

using namespace stream;

constexpr int kBlocks = 16;  // of the cluster
constexpr int kWarps = 8, kThreads = kWarps * 32;
constexpr int kMaxRows = 8;
constexpr int kMaxBoxes = 256;  // of 64 elements along K: the most that one copy of TMA takes
constexpr int kStagedBytes = kMaxRows * 2 * kColumns, kStagedPlaces = 3;

enum ProductName { kO, kGateUp, kDown, kNext, kProducts };
enum Exchange { kAfterO, kAfterGate, kAfterDown, kExchanges };  // kAfterO == kO, and so on

struct Product {
  const float* bias;
  std::int32_t k;
  std::int32_t strips;  // of gate_up: of the gates alone
  std::int32_t at;      // of its weights in shared memory
};

// Where things lie in shared memory. Nothing but `staged` is written twice, so a block waits for no readers.
struct Places {
  std::int32_t x, x_pitch;
  std::int32_t residuals[3];  // before, between and after the two additions
  std::int32_t normed[2];
  std::int32_t pitch;  // of residuals and normed
  std::int32_t activated, activated_pitch;
  std::int32_t norm_weights, staged, zeros, barriers;
  std::int32_t bytes;
};

struct TailArgs {
  CUtensorMap weights[kProducts];  // [k / kSwizzled][n][kSwizzled], all of K in one copy
  Product products[kProducts];
  Places places;
  const Bf16* x;
  Bf16 *residual, *hidden, *activated, *next;
  std::int64_t x_stride, residual_stride, hidden_stride, activated_stride, next_stride;
  const Bf16* norms[2];
  float eps[2];
  Activation activation;
  std::int32_t m, columns;  // columns: of the residual
};

__host__ __device__ constexpr int strip_bytes(int k) {
  return k / kSwizzled * kSwizzledBytes;
}

// The address in shared memory of block `rank`, of what is at `address` in this block.
__device__ __forceinline__ std::uint32_t address_in(std::uint32_t address, int rank) {
  std::uint32_t remote;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}
__device__ __forceinline__ void send(std::uint32_t to, const uint4& value, std::uint32_t barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
               "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "r"(barrier)
               : "memory");
}
// Sixteen bytes that a thread copies to shared memory.
struct RowCopy {
  const uint4* from;  // null: none
  uint4* to;
  __device__ __forceinline__ void run() const {
    if (from != nullptr) *to = *from;
  }
};

// The addresses that a lane passes to ldmatrix, as in linear_stream.cu.
struct Strip {
  std::uint32_t weights, unit, x, x_step;
  int groups;
};

// A thread's view of its block. One per thread; methods with shuffles or barriers are called by whole warps. There is
// one code for all four products and one for both norms: code that runs for the first time comes from the L2, which
// takes longer than the arithmetic.
class Block {
 public:
  __device__ Block(const TailArgs& args, char* memory)
      : args_(args),
        memory_(memory),
        at_(shared_address(memory)),
        rank_(static_cast<int>(rank_in_cluster())),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32) {
    remote_ = address_in(at_, lane_ / 2);
  }

  // What depends on no kernel.
  __device__ __forceinline__ void prepare() const;
  // Called by one thread.
  __device__ __forceinline__ void request_weights() const;
  // Begins before the preceding kernels have ended, and waits for them.
  __device__ __forceinline__ void run() const;

 private:
  __device__ __forceinline__ std::uint32_t weights_barrier(int product) const {
    return at_ + args_.places.barriers + 8 * product;
  }
  __device__ __forceinline__ std::int32_t exchange_barrier(int exchange) const {  // relative to the shared memory
    return args_.places.barriers + 8 * (kProducts + exchange);
  }
  __device__ __forceinline__ void wait_for_exchange(int exchange) const {
    wait_barrier(at_ + exchange_barrier(exchange), 0);
  }
  // Sixteen columns of up to eight rows, [row][column]. A warp has kAlone for products of its own, and two places, used
  // in turn, for what its neighbour reads.
  static constexpr int kAlone = 2;
  __device__ __forceinline__ Bf16* staged(int warp, int place) const {
    return reinterpret_cast<Bf16*>(memory_ + args_.places.staged + (kStagedPlaces * warp + place) * kStagedBytes);
  }
  __device__ __forceinline__ RowCopy row_copy(int i) const;
  __device__ __forceinline__ Strip strip_of(const Product& product, int name, int part) const;
  __device__ __forceinline__ void write_rows(int from, int pitch, int columns, Bf16* to, std::int64_t stride) const;
  __device__ __forceinline__ void load_residual(int strip, int which, float (&residual)[4]) const;
  __device__ __forceinline__ void multiply(const Strip& strip, Fragments (&fragments)[2], float (&d)[4]) const;
  __device__ __forceinline__ void gate(Bf16* gates, const Bf16* up) const;
  __device__ __forceinline__ void send_strip(const Bf16* strip, int to, int pitch, int exchange) const;
  __device__ __forceinline__ void write_next(int strip, const Bf16* y) const;
  __device__ __forceinline__ void norm(int which) const;

  const TailArgs& args_;
  char* const memory_;
  const std::uint32_t at_;
  std::uint32_t remote_;  // the shared memory of the block that this lane sends to
  const int rank_, warp_, lane_;
};

__device__ __forceinline__ void Block::prepare() const {
  const Places& places = args_.places;
  if (threadIdx.x == 0) {
    for (int i = 0; i < int{kProducts} + int{kExchanges}; ++i) make_barrier(at_ + places.barriers + 8 * i, 1);
    publish_barriers();
    const int sums = args_.m * args_.columns * 2;
    expect_bytes(at_ + exchange_barrier(kAfterO), sums);
    expect_bytes(at_ + exchange_barrier(kAfterGate), args_.m * args_.products[kDown].k * 2);
    expect_bytes(at_ + exchange_barrier(kAfterDown), sums);
    *reinterpret_cast<uint4*>(memory_ + places.zeros) = uint4{0, 0, 0, 0};
  }
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < 2 * args_.columns; i += kThreads * kVector) {
    const Bf16* from = i < args_.columns ? args_.norms[0] + i : args_.norms[1] + (i - args_.columns);
    *reinterpret_cast<uint4*>(memory_ + places.norm_weights + i * 2) = *reinterpret_cast<const uint4*>(from);
  }
}

__device__ __forceinline__ void Block::request_weights() const {
#pragma unroll 1
  for (int i = 0; i < kProducts; ++i) {
    const Product& product = args_.products[i];
    const int num = (product.strips - rank_ + kBlocks - 1) / kBlocks, parts = i == kGateUp ? 2 : 1;
    if (num <= 0) continue;
    expect_bytes(weights_barrier(i), num * parts * strip_bytes(product.k));
#pragma unroll 1
    for (int part = 0; part < num * parts; ++part) {
      const int strip = rank_ + part / parts * kBlocks + part % parts * product.strips;
      copy_piece(at_ + product.at + part * strip_bytes(product.k), args_.weights[i], strip * kColumns, 0,
                 weights_barrier(i));
    }
  }
}

// The copies of the rows of x, and then of the residual.
__device__ __forceinline__ RowCopy Block::row_copy(int i) const {
  const Places& places = args_.places;
  const int x_units = args_.products[kO].k / kVector, residual_units = args_.columns / kVector;
  const int of_x = args_.m * x_units;
  if (i >= of_x + args_.m * residual_units) return {};
  const bool is_x = i < of_x;
  const int units = is_x ? x_units : residual_units, at = is_x ? i : i - of_x;
  const int row = at / units, unit = at - row * units;
  const Bf16* const from = is_x ? args_.x + row * args_.x_stride : args_.residual + row * args_.residual_stride;
  const int to = is_x ? places.x + row * places.x_pitch : places.residuals[0] + row * places.pitch;
  return {reinterpret_cast<const uint4*>(from) + unit, reinterpret_cast<uint4*>(memory_ + to) + unit};
}

// Writes the block's share of rows that every block has. The last warps begin, because the first ones have strips.
__device__ __forceinline__ void Block::write_rows(int from, int pitch, int columns, Bf16* to,
                                                  std::int64_t stride) const {
  const int units = columns / kVector;
#pragma unroll 1
  for (int i = rank_ + kBlocks * (kThreads - 1 - static_cast<int>(threadIdx.x)); i < args_.m * units;
       i += kBlocks * kThreads) {
    const int row = i / units, unit = i - row * units;
    *reinterpret_cast<uint4*>(to + row * stride + unit * kVector) =
        *reinterpret_cast<const uint4*>(memory_ + from + row * pitch + unit * 16);
  }
}

// The residual of a lane's results: before the first addition if `which` is 0, else before the second.
__device__ __forceinline__ void Block::load_residual(int strip, int which, float (&residual)[4]) const {
  const char* const rows = memory_ + args_.places.residuals[which];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int row = lane_ % 4 * 2 + j % 2, column = strip * kColumns + lane_ / 4 + j / 2 * 8;
    const int there = row < args_.m ? row : 0;
    residual[j] = from_bf16(reinterpret_cast<const Bf16*>(rows + there * args_.places.pitch)[column]);
  }
}

// The block's part number `part` of a product: a strip, or of gate_up the gates and up of its strips in turn.
__device__ __forceinline__ Strip Block::strip_of(const Product& product, int name, int part) const {
  const Places& places = args_.places;
  const int x = name == kO ? places.x : name == kDown ? places.activated : places.normed[name == kNext ? 1 : 0];
  const int x_pitch = name == kO ? places.x_pitch : name == kDown ? places.activated_pitch : places.pitch;
  const bool has_row = lane_ % 8 < args_.m;
  Strip strip;
  strip.x = at_ + (has_row ? x + lane_ % 8 * x_pitch + lane_ / 8 * 16 : places.zeros);
  strip.x_step = has_row ? 1 : 0;
  strip.unit = (lane_ / 16 ^ lane_ % 8) * 16;
  strip.weights = at_ + product.at + part * strip_bytes(product.k) + lane_ % 16 * kSwizzled * 2;
  strip.groups = product.k / kSwizzled;
  return strip;
}

// The weights of the first group are loaded already.
__device__ __forceinline__ void Block::multiply(const Strip& strip, Fragments (&fragments)[2], float (&d)[4]) const {
  const auto load = [&](Fragments& to, int group) { to.load(strip.weights, strip.unit, strip.x, strip.x_step, group); };
  fragments[0].load_x(strip.x, strip.x_step, 0);
#pragma unroll 1
  for (int group = 0; group < strip.groups; group += 2) {
    if (group + 1 < strip.groups) load(fragments[1], group + 1);
    fragments[0].multiply(d);
    if (group + 2 < strip.groups) load(fragments[0], group + 2);
    if (group + 1 < strip.groups) fragments[1].multiply(d);
  }
}

// gates = round(round(act(gates)) * up)
__device__ __forceinline__ void Block::gate(Bf16* gates, const Bf16* up) const {
#pragma unroll 1
  for (int i = lane_; i < args_.m * kColumns; i += 32) {
    const float gate = rounded<Bf16>(cuda::activated(args_.activation, from_bf16(gates[i])));
    put(gates[i], __fmul_rn(gate, from_bf16(up[i])));
  }
}

// Sends sixteen columns to all blocks. Two lanes send to a block, half of each row.
__device__ __forceinline__ void Block::send_strip(const Bf16* strip, int to, int pitch, int exchange) const {
  const int half = lane_ % 2 * kVector;
#pragma unroll 1
  for (int row = 0; row < args_.m; ++row) {
    send(remote_ + to + row * pitch + half * 2, *reinterpret_cast<const uint4*>(strip + row * kColumns + half),
         remote_ + exchange_barrier(exchange));
  }
}

__device__ __forceinline__ void Block::write_next(int strip, const Bf16* y) const {
  const int row = lane_ / 2, half = lane_ % 2 * kVector;
  if (row >= args_.m) return;
  *reinterpret_cast<uint4*>(args_.next + row * args_.next_stride + strip * kColumns + half) =
      *reinterpret_cast<const uint4*>(y + row * kColumns + half);
}

// Warp i computes row i, as norm.cu does. Of the second norm each block writes a share to memory.
__device__ __forceinline__ void Block::norm(int which) const {
  const Places& places = args_.places;
  if (warp_ < args_.m) {
    const auto* const row = reinterpret_cast<const Bf16*>(memory_ + places.residuals[which + 1] + warp_ * places.pitch);
    const auto* const weight = reinterpret_cast<const Bf16*>(memory_ + places.norm_weights) + which * args_.columns;
    auto* const out = reinterpret_cast<Bf16*>(memory_ + places.normed[which] + warp_ * places.pitch);
    int i = lane_ * kVector;
    Vector v = {}, w = {};
    if (i < args_.columns) v = load_vector(row + i), w = load_vector(weight + i);
    float q = 0.0f;
#pragma unroll 16
    for (int k = lane_ % kLanes; k < args_.columns; k += kLanes) {
      const float x = from_bf16(row[k]);
      q = __fmaf_rn(x, x, q);
    }
    const float squares = __shfl_sync(kWholeWarp, tree_sum(q), 0);
    const float mean = __fdiv_rn(squares, __int2float_rn(args_.columns));
    const float inverse = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, args_.eps[which])));
#pragma unroll 1
    while (i < args_.columns) {
#pragma unroll
      for (int e = 0; e < kVector; ++e) v.x[e] = __fmul_rn(v.x[e], inverse);
      unpack(rounded_eight(v.x), v.x);
#pragma unroll
      for (int e = 0; e < kVector; ++e) v.x[e] = __fmul_rn(w.x[e], v.x[e]);
      store_vector(out + i, v);
      if (which == 1 && i / kVector % kBlocks == rank_) {
        store_vector(args_.hidden + warp_ * args_.hidden_stride + i, v);
      }
      i += 32 * kVector;
      if (i >= args_.columns) break;
      v = load_vector(row + i), w = load_vector(weight + i);
    }
  }
  __syncthreads();
}

__device__ __forceinline__ void Block::run() const {
  const Places& places = args_.places;
  const RowCopy first_copy = row_copy(static_cast<int>(threadIdx.x));
#pragma unroll 1
  for (int name = kO; name < kProducts; ++name) {
    // First what needs no result of the product before.
    const Product product = args_.products[name];
    const bool is_gated = name == kGateUp, adds = name == kO || name == kDown;
    const int parts = is_gated ? 2 : 1, which = name == kO ? 0 : 1;
    int part = warp_, strip = rank_ + part / parts * kBlocks, place = is_gated ? 0 : kAlone;
    Strip addresses = strip_of(product, name, part);
    Fragments fragments[2];
    if (strip < product.strips) {
      wait_barrier(weights_barrier(name), 0);
      fragments[0].load_weights(addresses.weights, addresses.unit, 0);
    }
    if (name == kO) {
      wait_for_kernel_before();
      first_copy.run();
#pragma unroll 1
      for (int i = static_cast<int>(threadIdx.x) + kThreads;; i += kThreads) {
        const RowCopy copy = row_copy(i);
        if (copy.from == nullptr) break;
        copy.run();
      }
      __syncthreads();
    } else {
      wait_for_exchange(name - 1);
      if (!adds) norm(name == kNext ? 1 : 0);
    }
#pragma unroll 1
    while (strip < product.strips) {
      Bf16* const y = staged(warp_, place);
      float d[4] = {}, residual[4];
      if (adds) load_residual(strip, which, residual);
      multiply(addresses, fragments, d);
      const int column = lane_ / 4, row = lane_ % 4 * 2;
      if (product.bias != nullptr) {
        const int first = (strip + (is_gated && part % 2 != 0 ? product.strips : 0)) * kColumns + column;
        d[0] = __fadd_rn(d[0], product.bias[first]), d[1] = __fadd_rn(d[1], product.bias[first]);
        d[2] = __fadd_rn(d[2], product.bias[first + 8]), d[3] = __fadd_rn(d[3], product.bias[first + 8]);
      }
      if (adds) {
#pragma unroll
        for (int j = 0; j < 4; ++j) d[j] = __fadd_rn(rounded<Bf16>(d[j]), residual[j]);
      }
      // Also rows that x does not have; nobody reads them.
#pragma unroll
      for (int j = 0; j < 4; ++j) put(y[(row + j % 2) * kColumns + column + j / 2 * 8], d[j]);
      if (is_gated) {
        // Two neighbouring warps share a strip. The place of up is written again after the next barrier of the pair,
        // before which it has been read.
        asm volatile("bar.sync %0, 64;" ::"r"(warp_ / 2 + 1) : "memory");
        if (part % 2 == 0) {
          gate(y, staged(warp_ + 1, place));
          __syncwarp();
          send_strip(y, places.activated + strip * kColumns * 2, places.activated_pitch, kAfterGate);
        }
      } else {
        __syncwarp();
        if (adds) {
          send_strip(y, places.residuals[which + 1] + strip * kColumns * 2, places.pitch, name);
        } else {
          write_next(strip, y);
        }
      }
      __syncwarp();  // all lanes have read the place
      if (is_gated) place = 1 - place;
      part += kWarps;
      strip = rank_ + part / parts * kBlocks;
      if (strip >= product.strips) break;
      addresses = strip_of(product, name, part);
      fragments[0].load_weights(addresses.weights, addresses.unit, 0);
    }
  }
  write_rows(places.residuals[2], places.pitch, args_.columns, args_.residual, args_.residual_stride);
  write_rows(places.activated, places.activated_pitch, args_.products[kDown].k, args_.activated,
             args_.activated_stride);
}

__global__ void __launch_bounds__(kThreads, 1) tail_kernel(const __grid_constant__ TailArgs args) {
  extern __shared__ __align__(1024) char memory[];
  let_next_kernel_begin();
  Block self(args, memory);
  self.prepare();
  // No block sends before the barriers of all blocks are there.
  wait_for_cluster();
  if (threadIdx.x == 0) self.request_weights();
  self.run();
}

// Sizes of products and places.
TailArgs sizes_of(const LayerTail& tail) {
  TailArgs args = {};
  args.m = static_cast<std::int32_t>(tail.o.m);
  args.columns = static_cast<std::int32_t>(tail.o.n);
  const LinearArgs* const products[] = {&tail.o, &tail.gate_up, &tail.down, &tail.next};
  Places& places = args.places;
  std::int32_t at = 0;
  const auto take = [&](std::int32_t bytes) {
    const std::int32_t begin = at;
    at += (bytes + 15) / 16 * 16;
    return begin;
  };
  for (int i = 0; i < kProducts; ++i) {
    const int parts = i == kGateUp ? 2 : 1;
    Product& product = args.products[i];
    product.bias = products[i]->bias;
    product.k = static_cast<std::int32_t>(products[i]->k);
    product.strips = static_cast<std::int32_t>(products[i]->n / (parts * kColumns));
    product.at = take((product.strips + kBlocks - 1) / kBlocks * parts * strip_bytes(product.k));
  }
  // 16 bytes between rows, so that ldmatrix of 8 rows reads from all banks.
  places.x_pitch = args.products[kO].k * 2 + 16;
  places.x = take(args.m * places.x_pitch);
  places.pitch = args.columns * 2 + 16;
  for (std::int32_t& residual : places.residuals) residual = take(args.m * places.pitch);
  for (std::int32_t& normed : places.normed) normed = take(args.m * places.pitch);
  places.activated_pitch = args.products[kDown].k * 2 + 16;
  places.activated = take(args.m * places.activated_pitch);
  places.norm_weights = take(2 * args.columns * 2);
  places.staged = take(kWarps * kStagedPlaces * kStagedBytes);
  places.zeros = take(16);
  places.barriers = take((int{kProducts} + int{kExchanges}) * 8);
  places.bytes = at;
  return args;
}

bool same(const void* data, std::int64_t stride, const Rows& rows) {
  return data == rows.data && stride == rows.stride;
}

bool is_aligned(const void* data, std::int64_t stride) {
  return reinterpret_cast<std::uintptr_t>(data) % 16 == 0 && stride % kVector == 0;
}

// A norm of the product's result, in place, after its addition to the residual.
bool is_norm_of(const NormArgs& norm, const LinearArgs& y) {
  return norm.rows == y.m && norm.columns == y.n && norm.type == ElementType::kBf16 && !norm.layer_norm &&
         norm.bias == nullptr && norm.residual.data != nullptr && same(y.y, y.y_stride, norm.x) &&
         same(y.y, y.y_stride, norm.out) && is_aligned(norm.weight, 0) && is_aligned(norm.out.data, norm.out.stride) &&
         is_aligned(norm.residual.data, norm.residual.stride);
}

bool fits(const LinearArgs& product, int columns) {
  return streams(product) && product.y_type == ElementType::kBf16 && product.n % columns == 0 &&
         product.k / kSwizzled <= kMaxBoxes;
}

// One cluster, which may start before the preceding kernel ends. `config` points into the object.
struct Launch {
  cudaLaunchAttribute attributes[2] = {};
  cudaLaunchConfig_t config = {};
  Launch(cudaStream_t stream, std::int32_t shared_bytes) {
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = kBlocks;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    config.gridDim = kBlocks;
    config.blockDim = kThreads;
    config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
    config.stream = stream;
    config.attrs = attributes;
    config.numAttrs = 2;
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
};

}  // namespace

bool serves_layer_tail(const LayerTail& tail) {
  const LinearArgs &o = tail.o, &gate_up = tail.gate_up, &down = tail.down, &next = tail.next;
  const Rows& hidden = tail.after_mlp.out;
  const bool has_next = next.n > 0;
  if (o.m < 1 || o.m > kMaxRows || gate_up.m != o.m || down.m != o.m || (has_next && next.m != o.m)) return false;
  if (!fits(o, kColumns) || !fits(gate_up, 2 * kColumns) || !fits(down, kColumns)) return false;
  if (has_next && !fits(next, kColumns)) return false;
  if (o.n > kBlocks * kWarps * kColumns || down.n != o.n || gate_up.k != o.n || down.k * 2 != gate_up.n) return false;
  if (!is_norm_of(tail.after_attention, o) || !is_norm_of(tail.after_mlp, down)) return false;
  if (!same(tail.after_attention.residual.data, tail.after_attention.residual.stride, tail.after_mlp.residual)) {
    return false;
  }
  if (!same(gate_up.x, gate_up.x_stride, hidden) || !same(o.y, o.y_stride, hidden)) return false;
  if (down.x != gate_up.y || down.x_stride != gate_up.y_stride || !is_aligned(down.x, down.x_stride)) return false;
  if (has_next && (!same(next.x, next.x_stride, hidden) || next.k != o.n)) return false;
  if (has_next && !is_aligned(next.y, next.y_stride)) return false;
  return sizes_of(tail).places.bytes <= kSharedBytes;
}

cudaError_t launch_layer_tail(const LayerTail& tail, cudaStream_t stream) {
  TailArgs args = sizes_of(tail);
  const LinearArgs* const products[] = {&tail.o, &tail.gate_up, &tail.down, &tail.next};
  for (int i = 0; i < kProducts; ++i) {
    const LinearArgs& p = *products[i];
    if (p.n == 0) continue;
    const cudaError_t error = describe(p.w, p.n, p.k, p.w_stride, kColumns, static_cast<int>(p.k), args.weights[i]);
    if (error != cudaSuccess) return error;
  }
  args.x = tail.o.x, args.x_stride = tail.o.x_stride;
  args.residual = static_cast<Bf16*>(tail.after_mlp.residual.data),
  args.residual_stride = tail.after_mlp.residual.stride;
  args.hidden = static_cast<Bf16*>(tail.after_mlp.out.data), args.hidden_stride = tail.after_mlp.out.stride;
  args.activated = static_cast<Bf16*>(tail.gate_up.y), args.activated_stride = tail.gate_up.y_stride;
  args.next = static_cast<Bf16*>(tail.next.y), args.next_stride = tail.next.y_stride;
  args.norms[0] = static_cast<const Bf16*>(tail.after_attention.weight), args.eps[0] = tail.after_attention.eps;
  args.norms[1] = static_cast<const Bf16*>(tail.after_mlp.weight), args.eps[1] = tail.after_mlp.eps;
  args.activation = tail.activation;
  Launch launch(stream, args.places.bytes);
  return cudaLaunchKernelEx(&launch.config, tail_kernel, args);
}

cudaError_t prepare_layer_tail(bool& available) {
  available = false;
  cudaError_t error = cudaFuncSetAttribute(tail_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
  if (error != cudaSuccess) return error;
  error = cudaFuncSetAttribute(tail_kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  if (error != cudaSuccess) return error;
  Launch launch(nullptr, kSharedBytes);
  int num_clusters = 0;
  available =
      cudaOccupancyMaxActiveClusters(&num_clusters, tail_kernel, &launch.config) == cudaSuccess && num_clusters > 0;
  if (!available) cudaGetLastError();
  return cudaSuccess;
}

}  // namespace mortise::cuda
