// linear: threads divide the columns, and also the rows if there are many. K is never split. A gated product is done by
// the kernel itself, or passes through a tile of each thread that stays in its cache.
#include "kernels/cpu/linear/linear.hpp"

#include <algorithm>

#include "devices/checks/linear.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/matrix.hpp"
#include "devices/cpu/ops.hpp"
#include "kernels/cpu/linear/pack.hpp"

namespace mortise::cpu {
namespace {

constexpr char kWhere[] = "linear";
constexpr std::size_t kPanelsAtOnce = 4;  // multiples of it suit the kernels best
constexpr std::size_t kRowStep = 32;
constexpr std::size_t kTasksPerThread = 4;
// Multiplications in a task of about one microsecond, which is the cost of handing out a task.
constexpr std::size_t kTaskWork = std::size_t{1} << 17;
constexpr std::size_t kFewRows = 4;  // fewer rows take as long, because reading the weights dominates
// With this many rows for each thread, a thread takes the same rows in every operation of a step, which are in its
// cache from its last write. With fewer rows this does not pay: each thread would have to read all weights.
constexpr std::size_t kRowsOfThread = 256;
constexpr std::size_t kGatedRows = 64;  // rows of the tile of a gated product

std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

struct Product {
  Matrix x, out;
  const mortise_weight& weight;
  const float* bias;
  std::size_t n0, n1;  // columns of out, as columns of the weight
  int32_t gate;        // the activation, or 0

  std::size_t out_columns() const { return n1 - n0; }
  // Returns the number of columns of the weight for each column of out.
  std::size_t weight_columns() const { return gate == 0 ? 1 : 2; }
  std::size_t panel_bytes() const {
    const std::size_t bits = weight.bits != 0 ? static_cast<std::size_t>(weight.bits)
                                              : 8 * static_cast<std::size_t>(dtype_bytes(weight.dtype));
    return std::max<std::size_t>(1, x.columns * kPanelColumns * bits / 8);
  }
};

Product checked_product(const mortise_linear_args& args) {
  const ColumnRange columns = check_linear(args, shape_of(args.weight), shape_of(args.bias));
  Product p = {matrix_of(*args.x),
               matrix_of(*args.out),
               *args.weight,
               args.bias == nullptr ? nullptr : args.bias->vector(),
               static_cast<std::size_t>(columns.begin),
               static_cast<std::size_t>(columns.end),
               args.gate_activation};
  if (p.gate != 0) p.n1 /= 2;
  return p;
}

const LinearKernel& kernel_for(const mortise_device& device, const Product& p) {
  if (p.x.dtype == MORTISE_F32) return device.kernels.linear_f32.to_f32;
  const LinearBf16Kernels& linear = device.bf16_kernels.linear;
  return p.out.dtype == MORTISE_BF16 ? linear.to_bf16 : linear.to_f32;
}

// The size of a task: rows and columns.
struct Cut {
  std::size_t rows, columns;
};

// Returns the number of panels of out whose weights stay in a cache.
std::size_t panels_in_cache(const Product& p) {
  return std::max<std::size_t>(2, kLinearChunkBytes / (p.panel_bytes() * p.weight_columns()));
}

// Every thread gets the same number of tasks: several, because threads are not equally fast, but at most
// kTasksPerThread, and only as many as are worth handing out. Columns are divided first, so that one thread reads each
// weight. With many rows a task takes as many columns as the cache holds, so that the rows are read as rarely as
// possible.
Cut cut(const Product& p, std::size_t num_threads) {
  const std::size_t m = p.x.rows, n = p.out_columns(), k = p.x.columns;
  const std::size_t work = std::max(m, kFewRows) * n * p.weight_columns() * k;
  const std::size_t worth = std::min(kTasksPerThread * num_threads, work / kTaskWork);
  if (num_threads == 1 || worth <= 1) return {m, n};
  const std::size_t tasks = worth < num_threads ? worth : worth / num_threads * num_threads;
  const std::size_t panels = ceil_div(n, kPanelColumns);
  std::size_t panels_each = ceil_div(panels, tasks);
  if (m / kRowsOfThread >= num_threads && panels_each < panels_in_cache(p)) {
    panels_each = std::max(panels_each, ceil_div(panels, ceil_div(panels, panels_in_cache(p))));
  }
  if (panels_each > 2 * kPanelsAtOnce) panels_each = ceil_div(panels_each, kPanelsAtOnce) * kPanelsAtOnce;
  // A gated half that does not begin with a panel cannot be divided.
  if (p.gate != 0 && n % kPanelColumns != 0) panels_each = panels;
  const std::size_t column_tasks = ceil_div(panels, panels_each);
  const std::size_t of_threads = std::min(num_threads, m / kRowsOfThread);
  const std::size_t row_tasks =
      std::min(std::max({std::size_t{1}, tasks / column_tasks, of_threads}), ceil_div(m, kRowStep));
  const std::size_t rows = ceil_div(ceil_div(m, row_tasks), kRowStep) * kRowStep;
  return {std::min(m, rows), panels_each * kPanelColumns};
}

// Calls f(m0, m1) for blocks of rows until all rows are covered. A block is some tens of microseconds of work.
template <typename F>
void over_prepared_rows(ThreadPool& pool, std::size_t rows, std::size_t rows_each, F f) {
  const auto tasks = static_cast<std::int32_t>(ceil_div(rows, rows_each));
  pool.for_each(tasks, [&](std::int32_t task, std::int32_t) {
    const std::size_t first = static_cast<std::size_t>(task) * rows_each;
    f(first, std::min(rows, first + rows_each));
  });
}

// Calls f(range of out, thread) until all rows and columns are covered.
template <typename F>
void over_ranges(mortise_device& device, const Product& p, F f) {
  const Cut size = cut(p, static_cast<std::size_t>(device.pool.num_threads()));
  const std::size_t column_tasks = ceil_div(p.n1 - p.n0, size.columns);
  const std::size_t row_tasks = ceil_div(p.x.rows, size.rows);
  const bool rows_first = row_tasks >= static_cast<std::size_t>(device.pool.num_threads());
  // After its columns a thread takes the next columns for the same rows, in this call or in the next.
  const std::size_t last = p.gate == 0 ? static_cast<std::size_t>(p.weight.n) : p.n1;
  device.pool.for_each(
      static_cast<std::int32_t>(column_tasks * row_tasks), [&](std::int32_t task, std::int32_t thread) {
        const auto i = static_cast<std::size_t>(task);
        const std::size_t column = p.n0 + (rows_first ? i % column_tasks : i / row_tasks) * size.columns;
        const std::size_t row = (rows_first ? i / column_tasks : i % row_tasks) * size.rows;
        const std::size_t end = std::min(p.n1, column + size.columns);
        f(LinearRange{row, std::min(p.x.rows, row + size.rows), column, end, rows_first ? last - end : 0},
          static_cast<std::size_t>(thread));
      });
}

// The tile of a gated product: up to kGatedRows rows, each with gates followed by the values that they gate.
struct GatedTile {
  std::size_t columns;  // of out
  std::size_t stride;   // elements; one cache line more than needed: rows a power of two apart would share cache sets
  std::size_t bytes;
};

GatedTile gated_tile(const Product& p) {
  const std::size_t half = p.out_columns();
  const bool whole = half % kPanelColumns != 0;
  const std::size_t columns = whole ? half : std::min(half, panels_in_cache(p) * kPanelColumns);
  const std::size_t stride = ceil_div(2 * columns, 32) * 32 + 32;
  return {columns, stride, kGatedRows * stride * static_cast<std::size_t>(dtype_bytes(p.out.dtype))};
}

// A range of a gated product: gates and gated values go into `tile`, then the activation combines them.
template <typename Args, typename Run>
void run_gated(const Product& p, const ActivationKernels& kernels, Args args, const LinearRange& range, Run run,
               const GatedTile& size, std::byte* tile) {
  const std::size_t half = p.out_columns(), bytes = static_cast<std::size_t>(dtype_bytes(p.out.dtype));
  const auto act = static_cast<Activation>(p.gate);
  args.y_stride = size.stride;
  // Multiplies columns n0 .. n1 of the weight into the tile, from `column` on.
  const auto multiply = [&](std::size_t m0, std::size_t m1, std::size_t n0, std::size_t n1, std::size_t column) {
    const std::size_t skipped = (m0 * size.stride + n0) * bytes;
    args.y = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(tile) + column * bytes - skipped);
    run(args, LinearRange{m0, m1, n0, n1});
  };
  for (std::size_t n = range.n0; n < range.n1; n += size.columns) {
    const std::size_t n1 = std::min(range.n1, n + size.columns), count = n1 - n;
    for (std::size_t m = range.m0; m < range.m1; m += kGatedRows) {
      const std::size_t m1 = std::min(range.m1, m + kGatedRows);
      if (half % kPanelColumns == 0) {
        multiply(m, m1, n, n1, 0);
        multiply(m, m1, half + n, half + n1, count);
      } else {
        multiply(m, m1, 0, 2 * half, 0);
      }
      for (std::size_t i = 0; i < m1 - m; ++i) {
        const std::byte* gate = tile + i * size.stride * bytes;
        if (p.out.dtype == MORTISE_BF16) {
          const auto* g = reinterpret_cast<const Bf16*>(gate);
          kernels.gated_bf16(act, g, g + count, p.out.row_of<Bf16>(m + i) + n, count);
        } else {
          const auto* g = reinterpret_cast<const float*>(gate);
          kernels.gated_f32(act, g, g + count, p.out.row_of<float>(m + i) + n, count);
        }
      }
    }
  }
}

// Reserves `prepared` bytes that all threads read, and `tiles` bytes for gated products.
std::byte* reserve_scratch(mortise_device& device, std::size_t prepared, std::size_t tiles) {
  return prepared + tiles == 0 ? nullptr : static_cast<std::byte*>(device.scratch.reserve(prepared + tiles));
}

std::size_t bytes_of_gated_tiles(const mortise_device& device, const Product& p) {
  return p.gate == 0 ? 0 : gated_tile(p).bytes * static_cast<std::size_t>(device.pool.num_threads());
}

// Computes the product by calls of run(args, range). `tiles`: the memory for gated products that need tiles.
template <typename Args, typename Run>
void run_ranges(mortise_device& device, const Product& p, const Args& args, Run run, std::byte* tiles) {
  if (tiles == nullptr) {
    over_ranges(device, p, [&](const LinearRange& range, std::size_t) { run(args, range); });
    return;
  }
  const GatedTile size = gated_tile(p);
  over_ranges(device, p, [&](const LinearRange& range, std::size_t thread) {
    run_gated(p, device.kernels.activation, args, range, run, size, tiles + thread * size.bytes);
  });
}

// Returns the arguments that both kinds of weights have in common.
template <typename Args>
Args args_of(const Product& p) {
  // The kernel counts columns from the first column of the weight, `out` counts them from column_begin.
  const std::size_t skipped = p.n0 * static_cast<std::size_t>(dtype_bytes(p.out.dtype));
  Args args = {};
  args.x = p.x.data;
  args.x_stride = p.x.stride;
  args.bias = p.bias;
  args.y = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(p.out.data) - skipped);
  args.y_stride = p.out.stride;
  args.m = p.x.rows;
  args.n = static_cast<std::size_t>(p.weight.n);
  args.k = p.x.columns;
  return args;
}

// Returns whether the kernel computes the gated product itself. For few rows two products are faster: the weights come
// from memory, and two products read more streams at a time.
bool gated_by_kernel(const LinearKernel& kernel, const Product& p) {
  return p.gate != 0 && kernel.run_gated != nullptr && p.x.rows > kPanelColumns && p.out_columns() % kPanelColumns == 0;
}

void multiply(mortise_device& device, const Product& p) {
  constexpr std::size_t kPrepareRows = 128;
  const LinearKernel& kernel = kernel_for(device, p);
  auto args = args_of<LinearArgs>(p);
  args.w = p.weight.data;
  args.gate = static_cast<Activation>(p.gate);
  const bool by_kernel = gated_by_kernel(kernel, p);
  const std::size_t prepared = ceil_div(kernel.scratch_bytes(args.m, args.k), 64) * 64;
  const std::size_t tiles = by_kernel ? 0 : bytes_of_gated_tiles(device, p);
  std::byte* const scratch = reserve_scratch(device, prepared, tiles);
  if (prepared > 0) {
    args.scratch = scratch;
    over_prepared_rows(device.pool, args.m, kPrepareRows,
                       [&](std::size_t m0, std::size_t m1) { kernel.prepare(args, m0, m1); });
  }
  run_ranges(device, p, args, by_kernel ? kernel.run_gated : kernel.run, tiles == 0 ? nullptr : scratch + prepared);
}

void multiply_int(mortise_device& device, const Product& p) {
  constexpr std::size_t kPrepareRows = 32;
  const LinearIntKernels& kernels = device.kernels.linear_int;
  auto args = args_of<LinearIntArgs>(p);
  args.format = {p.weight.bits, p.weight.group_size};
  args.values = static_cast<const std::uint8_t*>(p.weight.data);
  args.scales = p.weight.scales;
  args.zeros = p.weight.zeros;
  args.order = p.weight.order;
  const std::size_t prepared = ceil_div(kernels.scratch_bytes(args.m, args.k, args.format.group_size), 64) * 64;
  args.gate = static_cast<Activation>(p.gate);
  const bool by_kernel =
      p.gate != 0 && p.out.dtype == MORTISE_BF16 && kernels.can_gate != nullptr && kernels.can_gate(args);
  const std::size_t tiles = by_kernel ? 0 : bytes_of_gated_tiles(device, p);
  std::byte* const scratch = reserve_scratch(device, prepared, tiles);
  args.scratch = scratch;
  const auto prepare = p.x.dtype == MORTISE_BF16 ? kernels.prepare_bf16 : kernels.prepare_f32;
  over_prepared_rows(device.pool, args.m, kPrepareRows, [&](std::size_t m0, std::size_t m1) { prepare(args, m0, m1); });
  const auto run = by_kernel ? kernels.gated_to_bf16 : p.out.dtype == MORTISE_BF16 ? kernels.to_bf16 : kernels.to_f32;
  run_ranges(device, p, args, run, tiles == 0 ? nullptr : scratch + prepared);
}

void multiply_block32(mortise_device& device, const Product& p) {
  constexpr std::size_t kPrepareRows = 32;
  const LinearBlock32Kernels& kernels = device.kernels.linear_block32;
  auto args = args_of<LinearBlock32Args>(p);
  args.format = {p.weight.bits, p.weight.group_size, p.weight.zero, p.weight.has_minima, p.weight.half_scales};
  args.values = static_cast<const std::uint8_t*>(p.weight.data);
  args.scales = p.weight.block32_scales;
  args.minima = p.weight.minima;
  const std::size_t prepared = ceil_div(kernels.scratch_bytes(args.m, args.k), 64) * 64;
  const std::size_t tiles = bytes_of_gated_tiles(device, p);
  std::byte* const scratch = reserve_scratch(device, prepared, tiles);
  args.scratch = scratch;
  const auto prepare = p.x.dtype == MORTISE_BF16 ? kernels.prepare_bf16 : kernels.prepare_f32;
  over_prepared_rows(device.pool, args.m, kPrepareRows, [&](std::size_t m0, std::size_t m1) { prepare(args, m0, m1); });
  const auto run = p.out.dtype == MORTISE_BF16 ? kernels.to_bf16 : kernels.to_f32;
  run_ranges(device, p, args, run, tiles == 0 ? nullptr : scratch + prepared);
}

// Multiplies with weights that the kernel widens.
template <class Kernel, class Args>
void multiply_widened(mortise_device& device, const Product& p, const Kernel& kernel, Args args) {
  constexpr std::size_t kPrepareRows = 128;
  args.w = p.weight.data;
  const std::size_t prepared = ceil_div(kernel.scratch_bytes(args.m, args.k), 64) * 64;
  const std::size_t tiles = bytes_of_gated_tiles(device, p);
  std::byte* const scratch = reserve_scratch(device, prepared, tiles);
  if (prepared > 0) {
    args.scratch = scratch;
    over_prepared_rows(device.pool, args.m, kPrepareRows,
                       [&](std::size_t m0, std::size_t m1) { kernel.prepare(args, m0, m1); });
  }
  run_ranges(device, p, args, kernel.run, tiles == 0 ? nullptr : scratch + prepared);
}

void multiply_fp8(mortise_device& device, const Product& p) {
  const KernelTable& kernels = device.kernels;
  auto args = args_of<LinearFp8Args>(p);
  args.scales = p.weight.scales;
  args.group_size = p.weight.group_size;
  multiply_widened(device, p,
                   p.x.dtype == MORTISE_F32      ? kernels.linear_fp8_f32
                   : p.out.dtype == MORTISE_BF16 ? kernels.linear_fp8_to_bf16
                                                 : kernels.linear_fp8_to_f32,
                   args);
}

void multiply_mxfp4(mortise_device& device, const Product& p) {
  const Bf16Kernels& kernels = device.bf16_kernels;
  auto args = args_of<LinearMxfp4Args>(p);
  args.exponents = p.weight.zeros;
  multiply_widened(device, p,
                   p.x.dtype == MORTISE_F32      ? device.kernels.linear_mxfp4_f32
                   : p.out.dtype == MORTISE_BF16 ? kernels.linear_mxfp4_to_bf16
                                                 : kernels.linear_mxfp4_to_f32,
                   args);
}

}  // namespace

mortise_status linear(mortise_device* device, mortise_stream*, const mortise_linear_args* args, mortise_error* error) {
  return guard(error, kWhere, [&] {
    const Product product = checked_product(known(args));
    if (product.x.rows == 0 || product.n1 == product.n0) return;
    const std::int32_t type = product.weight.value_type;
    const auto multiply_by_type = product.weight.bits == 0     ? multiply
                                  : type == MORTISE_F8_E4M3    ? multiply_fp8
                                  : type == MORTISE_F4_E2M1    ? multiply_mxfp4
                                  : type == MORTISE_I8_BLOCK32 ? multiply_block32
                                                               : multiply_int;
    multiply_by_type(*device, product);
  });
}

}  // namespace mortise::cpu
