// span_bench: speed of attention over the paged cache, class bf16, in bf16 and in int8, beside the floor of the same
// run. usage: span_bench [isa ...]   (without: all that the machine has but portable) Decode: 32 sequences of 1000
// tokens; floor: K and V over the memory bandwidth. Prefill: 1024 rows of one sequence; floor: the two products over
// the peak. `ratio` is floor / measured: 1 is the end. Times are of one layer, the fastest of many.
// Append: rope of q and k, K and V into the cache, as plugins/attention/span_cpu/append.cpp does it, in time a row.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "isas.hpp"
#include "kernels/cpu/kernels.hpp"
#include "limits.hpp"

namespace {

using namespace mortise;

struct Model {
  const char* name;
  int kv_heads, group, head_dim;
};
constexpr Model kModels[] = {{"160m", 12, 1, 64}, {"1b", 8, 4, 64}, {"d128 g8", 4, 8, 128}};
constexpr int kBlockSize = 16, kLayers = 2;

// A layer of a cache with sequences of one length, in shuffled blocks.
struct Cache {
  Cache(const Model& model, bool int8, int num_seqs, int length)
      : layout(cpu::make_kv_layout(int8 ? 1 : 2, kLayers, model.kv_heads, model.head_dim, kBlockSize)),
        blocks((length + kBlockSize - 1) / kBlockSize),
        table(static_cast<std::size_t>(num_seqs * blocks)) {
    std::iota(table.begin(), table.end(), 0);
    std::shuffle(table.begin(), table.end(), std::mt19937(1));
    const std::size_t bytes = table.size() * layout.block_elements * (int8 ? 1 : 2);
    memory.reset(static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096)));
    // As bf16 numbers about 0.06 of both signs; as bytes anything, and as a scale such a number.
    auto* const words = reinterpret_cast<cpu::Bf16*>(memory.get());
    for (std::size_t i = 0; i < bytes / 2; ++i) words[i] = static_cast<cpu::Bf16>(0x3d80u ^ ((i * 40503u) & 0x807fu));
  }
  struct Free {
    void operator()(void* p) const { std::free(p); }
  };
  cpu::KvLayout layout;
  int blocks;
  std::vector<std::int32_t> table;
  std::unique_ptr<std::byte[], Free> memory;
};

struct Work {
  std::vector<cpu::SpanUnit> units;
  std::vector<cpu::Bf16> q, out;
};

Work make_work(const Model& model, const Cache& cache, int num_seqs, int rows, int length) {
  Work work;
  const int columns = model.kv_heads * model.group * model.head_dim;
  work.q.assign(static_cast<std::size_t>(num_seqs * rows * columns), 0x3d00);
  work.out.resize(work.q.size());
  const int unit_rows = cpu::kUnitRows / model.group;
  for (int seq = 0; seq < num_seqs; ++seq) {
    for (int head = 0; head < model.kv_heads; ++head) {
      for (int row = 0; row < rows; row += unit_rows) {
        cpu::SpanUnit unit{};
        const std::ptrdiff_t at =
            static_cast<std::ptrdiff_t>(seq * rows + row) * columns + head * model.group * model.head_dim;
        unit.q = work.q.data() + at;
        unit.out = work.out.data() + at;
        unit.q_row_stride = unit.out_row_stride = columns;
        unit.q_head_stride = unit.out_head_stride = model.head_dim;
        unit.num_rows = std::min(unit_rows, rows - row);
        unit.num_heads = model.group;
        unit.position = length - rows + row;
        unit.seq_len = length;
        unit.scale = 0.1f;
        unit.kv = cache.memory.get() + static_cast<std::size_t>(head) * cache.layout.head_elements *
                                           static_cast<std::size_t>(cache.layout.element_bytes);
        unit.layout = &cache.layout;
        unit.block_table = cache.table.data() + seq * cache.blocks;
        unit.end_span = (unit.position + unit.num_rows + cpu::kSpan - 1) / cpu::kSpan;
        work.units.push_back(unit);
      }
    }
  }
  return work;
}

double measure(const cpu::Bf16Kernels& kernels, bool int8, const Work& work, std::size_t threads) {
  std::vector<std::unique_ptr<cpu::SpanScratch>> scratch;
  for (std::size_t t = 0; t < threads; ++t) scratch.push_back(std::make_unique<cpu::SpanScratch>());
  const auto attend = (int8 ? kernels.span_int8 : kernels.span).attend;
  return bench::fastest_round(threads, 1.0, [&](std::size_t t, std::size_t) {
    for (std::size_t i = t; i < work.units.size(); i += threads) {
      cpu::SpanUnit unit = work.units[i];
      if (i + threads < work.units.size()) unit.next = &work.units[i + threads];
      attend(unit, *scratch[t]);
    }
  });
}

// Rows of q, k and v side by side, and where they go: all tokens of the cache's sequences in order, or the last of
// each.
struct AppendWork {
  AppendWork(const Model& m, const Cache& c, int num_seqs, int length, bool all)
      : model(m), cache(c), columns((m.group + 2) * m.kv_heads * m.head_dim) {
    for (int seq = 0; seq < num_seqs; ++seq) {
      for (int t = all ? 0 : length - 1; t < length; ++t) {
        const auto block = static_cast<std::size_t>(seq * cache.blocks + t / kBlockSize);
        slots.push_back(static_cast<std::int64_t>(cache.table[block]) * kBlockSize + t % kBlockSize);
      }
    }
    rows.assign(slots.size() * static_cast<std::size_t>(columns), 0x3d00);
    cos.assign(static_cast<std::size_t>(length * model.head_dim / 2), 1.0f);  // q and k stay as they are
    sin.assign(cos.size(), 0.0f);
  }
  const Model& model;
  const Cache& cache;
  int columns;
  std::vector<std::int64_t> slots;
  std::vector<cpu::Bf16> rows;
  std::vector<float> cos, sin;
};

double measure_append(cpu::Isa isa, bool int8, AppendWork& work) {
  const Model& model = work.model;
  const cpu::KernelTable& kernels = cpu::kernels(isa);
  const auto heads = static_cast<std::size_t>((model.group + 1) * model.kv_heads);
  const auto dim = static_cast<std::size_t>(model.head_dim), columns = static_cast<std::size_t>(work.columns);
  return bench::fastest_round(1, 1.0, [&](std::size_t, std::size_t) {
    for (std::size_t begin = 0, end; begin < work.slots.size(); begin = end) {
      const auto left = static_cast<std::size_t>(cpu::kKeyGroup - work.slots[begin] % cpu::kKeyGroup);
      end = std::min(begin + left, work.slots.size());
      cpu::KvWrite write{};
      cpu::Bf16* const first = work.rows.data() + begin * columns;
      for (std::size_t row = begin; row < end; ++row) {
        cpu::Bf16* const x = work.rows.data() + row * columns;
        const std::size_t angles = row * dim / 2 % work.cos.size();
        kernels.rope.rotate_bf16(x, heads, model.head_dim, &work.cos[angles], &work.sin[angles], dim);
        for (std::size_t i = heads * dim; i < columns; i += 32) __builtin_prefetch(x + i);
      }
      write.v = first + heads * dim;
      write.k = first + (heads - static_cast<std::size_t>(model.kv_heads)) * dim;
      write.k_row_stride = write.v_row_stride = work.columns;
      write.k_head_stride = write.v_head_stride = model.head_dim;
      write.num_rows = static_cast<std::int32_t>(end - begin);
      write.slots = work.slots.data() + begin;
      write.kv = work.cache.memory.get();
      write.layout = &work.cache.layout;
      (int8 ? kernels.kv_write.bf16_int8 : kernels.kv_write.bf16)(write);
    }
  });
}

void run_append(cpu::Isa isa) {
  std::printf("\n%s, 1 thread: append\n%10s %22s %10s %9s\n", cpu::isa_name(isa), "model", "work", "us", "ns/row");
  for (const Model& model : kModels) {
    for (const int variant : {0, 1, 2, 3}) {
      const bool prefill = variant >= 2, int8 = variant % 2 != 0;
      const int num_seqs = prefill ? 2 : 32, length = prefill ? 1024 : 1000;
      const Cache cache(model, int8, num_seqs, length);
      AppendWork work(model, cache, num_seqs, length, prefill);
      const double seconds = measure_append(isa, int8, work);
      std::printf("%10s %22s %10.1f %9.1f\n", model.name,
                  prefill ? int8 ? "2 x 1024, int8" : "2 x 1024"
                  : int8  ? "32 x 1, int8"
                          : "32 x 1",
                  seconds * 1e6, seconds * 1e9 / static_cast<double>(work.slots.size()));
      std::fflush(stdout);
    }
  }
}

void run(cpu::Isa isa, cpu::SumOrder order, std::size_t threads, double bandwidth) {
  const double peak = bench::peak_flop_per_s(isa, threads);
  std::printf("\n%s, %s, %zu thread%s: read %.1f GB/s, peak %.1f GFLOP/s\n", cpu::isa_name(isa), bench::name_of(order),
              threads, threads == 1 ? "" : "s", bandwidth * 1e-9, peak * 1e-9);
  std::printf("%10s %22s %10s %9s %8s %7s\n", "model", "work", "us", "GFLOP/s", "GB/s", "ratio");
  for (const Model& model : kModels) {
    for (const int variant : {0, 1, 2, 3}) {
      const bool prefill = variant >= 2, int8 = variant % 2 != 0;
      const int num_seqs = prefill ? 1 : 32, rows = prefill ? 1024 : 1, length = prefill ? 1024 : 1000;
      const Cache cache(model, int8, num_seqs, length);
      const Work work = make_work(model, cache, num_seqs, rows, length);
      const double seconds = measure(cpu::bf16_kernels(isa, order), int8, work, threads);
      const double keys = prefill ? 0.5 * rows * (length + 1) : 1.0 * num_seqs * length;  // seen, of all rows
      const double operations = keys * model.kv_heads * model.group * model.head_dim * 4;
      const double bytes =
          1.0 * num_seqs * length * model.kv_heads * (int8 ? model.head_dim * 2 + 8 : model.head_dim * 4);
      const double floor = std::max(prefill ? 0 : bytes / bandwidth, operations / peak);
      std::printf("%10s %22s %10.1f %9.1f %8.2f %7.2f\n", model.name,
                  prefill ? int8 ? "prefill 1024, int8" : "prefill 1024"
                  : int8  ? "decode 32 x 1000, int8"
                          : "decode 32 x 1000",
                  seconds * 1e6, operations / seconds * 1e-9, bytes / seconds * 1e-9, floor / seconds);
      std::fflush(stdout);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const auto isas = bench::isas_named({argv + 1, argv + argc});
  if (!isas) return 1;
  for (std::size_t threads : {1, 2}) {
    const double bandwidth = bench::memory_read_bytes_per_s(threads);
    for (cpu::Isa isa : *isas) {
      for (const cpu::SumOrder order : bench::kSumOrders) run(isa, order, threads, bandwidth);
      if (threads == 1) run_append(isa);
    }
  }
}
