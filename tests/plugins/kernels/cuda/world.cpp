#include "world.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "byte_cache.hpp"
#include "kernels/cpu/isa.hpp"
#include "poison.hpp"

namespace mortise::test {
namespace {

constexpr int32_t kLayers = 2, kLayer = 1;  // another layer lies in the same blocks

uint32_t mix(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// About normal, standard deviation 1.
float noise(uint32_t key, uint32_t i) {
  const uint32_t u = mix(key + i * 0x9e3779b9u);
  const float sum = static_cast<float>((u & 255) + (u >> 8 & 255) + (u >> 16 & 255) + (u >> 24)) - 510.0f;
  return sum / 147.8f;
}

std::vector<Bf16> noise_row(uint32_t seed, int32_t seq, int32_t position, int32_t what, int32_t n, float size) {
  uint32_t key = mix(seed);
  for (const int32_t part : {seq, position, what}) key = mix(key ^ static_cast<uint32_t>(part + 1));
  std::vector<Bf16> row(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < row.size(); ++i) row[i] = narrow(size * noise(key, static_cast<uint32_t>(i)));
  return row;
}

}  // namespace

float widen(Bf16 h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}
Bf16 narrow(float x) {
  if (std::isnan(x)) return 0x7fc0;
  const auto u = std::bit_cast<uint32_t>(x);
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

std::vector<RowKey> rows_of(const std::vector<Chunk>& batch) {
  std::vector<RowKey> rows;
  for (const Chunk& run : batch) {
    for (int32_t i = 0; i < std::abs(run.count); ++i) rows.push_back({run.count < 0 ? -1 : run.seq, run.position + i});
  }
  return rows;
}

World::World(const Config& config)
    : config_(config),
      kernels_(tests_sm_80() ? cuda::mma_span_kernels() : cuda::hopper_span_kernels()),
      layout_(cuda::make_span_layout(kLayers, config.num_kv_heads, config.head_dim, config.block_size)),
      byte_layout_(
          cuda::make_span_layout(kLayers, config.num_kv_heads, config.head_dim, config.block_size, config.cache)) {
  check_cuda(kernels_.prepare_decode(config.head_dim, config.cache), "prepare");
  check_cuda(kernels_.prepare_prefill(config.head_dim, config.cache), "prepare");
  int32_t num_blocks = 1;
  for (const int32_t length : config.lengths) {
    const int32_t blocks = (length + config.block_size - 1) / config.block_size;
    max_blocks_ = std::max(max_blocks_, blocks + 1);
    num_blocks += blocks;
  }
  std::vector<int32_t> order(static_cast<std::size_t>(num_blocks));
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 rng(config.seed);
  std::shuffle(order.begin(), order.end(), rng);
  // Entries that no sequence has must not be read: they would fault.
  table_.assign(config.lengths.size() * static_cast<std::size_t>(max_blocks_), 1 << 28);
  std::size_t next = 0;
  for (std::size_t seq = 0; seq < config.lengths.size(); ++seq) {
    const int32_t shared = shared_tokens(static_cast<int32_t>(seq));
    for (int32_t i = 0; i * config.block_size < config.lengths[seq]; ++i) {
      const auto entry = [&](std::size_t table_row) -> int32_t& {
        return table_[table_row * static_cast<std::size_t>(max_blocks_) + static_cast<std::size_t>(i)];
      };
      const bool is_shared = i * config.block_size < shared;
      entry(seq) = is_shared ? entry(static_cast<std::size_t>(config.prefixes[seq].earlier_seq)) : order[next++];
    }
  }
  // Slots that no token has hold the worst that an earlier sequence can have left there: K is NaN, V as large as can
  // be.
  host_kv_.assign(static_cast<std::size_t>(num_blocks) * layout_.block_elements, 0xffff);
  const std::size_t half = layout_.head_elements / 2;
  for (std::size_t at = half; at < host_kv_.size(); at += 2 * half) std::fill_n(&host_kv_[at], half, 0x7f7f);
  for (std::size_t seq = 0; seq < config.lengths.size(); ++seq) {
    for (int32_t position = 0; position < config.lengths[seq]; ++position) {
      for (int32_t head = 0; head < config.num_kv_heads; ++head) {
        for (const bool values : {false, true}) {
          const auto s = static_cast<int32_t>(seq);
          const std::vector<Bf16> row = kv_head(s, position, head, values);
          const std::size_t at = slot_offset(s, position, head, values);
          const int32_t token = position % config.block_size;
          for (int32_t d = 0; d < config.head_dim; ++d) {
            host_kv_[at + static_cast<std::size_t>(cuda::span_offset(config.head_dim, token, d))] =
                row[static_cast<std::size_t>(d)];
          }
        }
      }
    }
  }
  upload();
  device_table_ = table_;
}

// If the cache is in bytes, the reference gets K and V as they are read back.
void World::upload() {
  if (config_.cache == cuda::SpanCache::kBf16) {
    kv_ = host_kv_;
    return;
  }
  const cpu::DenormalsOff off;
  std::vector<Bf16> wide(host_kv_.size()), packed(host_kv_.size() / layout_.head_elements * byte_layout_.head_elements);
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  std::vector<Bf16> row(dim);
  for (std::size_t head = 0; head * layout_.head_elements < host_kv_.size(); ++head) {
    for (int32_t token = 0; token < config_.block_size; ++token) {
      for (const bool values : {false, true}) {
        const auto at = [&](std::size_t d) {
          return head * layout_.head_elements + (values ? layout_.head_elements / 2 : 0) +
                 static_cast<std::size_t>(cuda::span_offset(config_.head_dim, token, static_cast<int32_t>(d)));
        };
        for (std::size_t d = 0; d < dim; ++d) row[d] = host_kv_[at(d)];
        const ByteRow written = byte_row(row, config_.cache);
        put_byte_row(written, byte_layout_, token, values, &packed[head * byte_layout_.head_elements]);
        for (std::size_t d = 0; d < dim; ++d) wide[at(d)] = written.read_back(d);
      }
    }
  }
  kv_ = wide;
  byte_kv_ = packed;
}

int32_t World::shared_tokens(int32_t seq) const {
  if (config_.prefixes.empty()) return 0;
  return config_.prefixes[static_cast<std::size_t>(seq)].tokens / config_.block_size * config_.block_size;
}

std::size_t World::slot_offset(int32_t seq, int32_t position, int32_t kv_head, bool values) const {
  const std::size_t entry = static_cast<std::size_t>(seq * max_blocks_ + position / config_.block_size);
  return static_cast<std::size_t>(table_[entry]) * layout_.block_elements + kLayer * layout_.layer_elements +
         static_cast<std::size_t>(kv_head) * layout_.head_elements + (values ? layout_.head_elements / 2 : 0);
}

std::vector<Bf16> World::kv_head(int32_t seq, int32_t position, int32_t kv_head, bool values) const {
  while (position < shared_tokens(seq)) seq = config_.prefixes[static_cast<std::size_t>(seq)].earlier_seq;
  return noise_row(config_.seed, seq, position, 1000 + 2 * kv_head + (values ? 1 : 0), config_.head_dim, 1);
}

std::vector<Bf16> World::q_row(RowKey row) const {
  return noise_row(config_.seed, row.seq, row.position, 1, config_.num_heads * config_.head_dim, config_.q_size);
}

void World::set(int32_t seq, int32_t position, bool values, int32_t elements, float number) {
  for (int32_t head = 0; head < config_.num_kv_heads; ++head) {
    const std::size_t at = slot_offset(seq, position, head, values);
    for (int32_t d = 0; d < elements; ++d) {
      const int32_t token = position % config_.block_size;
      host_kv_[at + static_cast<std::size_t>(cuda::span_offset(config_.head_dim, token, d))] = narrow(number);
    }
  }
  upload();
}

void World::set_value(int32_t seq, int32_t position, float value) {
  set(seq, position, true, config_.head_dim, value);
}

void World::set_first_of_key(int32_t seq, int32_t position, float value) {
  set(seq, position, false, 1, value);
}

void World::break_token(int32_t seq, int32_t position) {
  set(seq, position, false, config_.head_dim, std::numeric_limits<float>::quiet_NaN());
  set(seq, position, true, config_.head_dim, 0);
}

cuda::SpanArgs World::args(const DeviceArray<Bf16>& q, DeviceArray<Bf16>& out) const {
  const int64_t row = config_.num_heads * config_.head_dim;
  cuda::SpanArgs args{};
  args.q = q.data();
  args.q_row_stride = row + 64;
  args.q_head_stride = config_.head_dim;
  args.out = out.data();
  args.out_row_stride = row;
  args.out_head_stride = config_.head_dim;
  args.kv = kv_.data() + kLayer * layout_.layer_elements;
  args.block_table = device_table_.data();
  args.layout = layout_;
  args.heads_per_kv_head = config_.num_heads / config_.num_kv_heads;
  args.window = config_.window;
  args.scale = cuda::span_scale(1.0f / std::sqrt(static_cast<float>(config_.head_dim)));
  return args;
}

std::vector<Bf16> World::queries(const std::vector<RowKey>& rows) const {
  std::vector<Bf16> q;
  for (const RowKey& row : rows) {
    const std::vector<Bf16> values = q_row(row);
    q.insert(q.end(), values.begin(), values.end());
    q.insert(q.end(), 64, 0xffff);
  }
  return q;
}

span_cuda::Plan World::compute(const std::vector<Chunk>& batch, const Method& method, Rows& rows) {
  const std::vector<RowKey> keys = rows_of(batch);
  std::vector<int32_t> starts = {0}, lengths, table;
  for (const Chunk& run : batch) {
    starts.push_back(starts.back() + std::abs(run.count));
    lengths.push_back(run.count < 0 ? 0 : run.position + run.count);
    for (int32_t i = 0; i < max_blocks_; ++i) {
      table.push_back(run.count < 0 ? 1 << 28 : table_[static_cast<std::size_t>(run.seq * max_blocks_ + i)]);
    }
  }
  mortise_batch view{};
  view.num_seqs = static_cast<int32_t>(batch.size());
  view.num_tokens = static_cast<int32_t>(keys.size());
  view.max_blocks = max_blocks_;
  view.cu_seqlens_q = starts.data();
  view.seq_lens = lengths.data();
  view.block_size = config_.block_size;
  view.block_table = table.data();
  const Groups groups(view);
  span_cuda::PlanShape shape{};
  shape.num_heads = config_.num_heads;
  shape.num_kv_heads = config_.num_kv_heads;
  shape.window = config_.window;
  shape.num_workers = method.num_blocks;
  shape.partial_rows = method.partial_rows;
  shape.prefill = method.prefill;
  shape.num_shared_blocks = method.num_shared_blocks;
  shape.max_shared_runs = shape.max_shared_rows = 1 << 20;
  shape.head_dim = config_.head_dim;
  span_cuda::Plan plan;
  make_plan(view, shape, plan);

  const DeviceArray<Bf16> q(queries(keys));
  const std::size_t row_size = static_cast<std::size_t>(config_.num_heads * config_.head_dim);
  DeviceArray<Bf16> out(keys.size() * row_size);
  out.fill(0xee);
  const DeviceArray<int32_t> device_table(table), begin(plan.worker_begin);
  const DeviceArray<cuda::SpanMergeCounts> counts(
      std::vector<cuda::SpanMergeCounts>{merge_counts(plan, config_.head_dim)});
  const DeviceArray<cuda::SpanRun> runs(plan.runs), prefill(plan.prefill);
  const DeviceArray<cuda::SpanMerge> merges(plan.merges);
  const auto partial_rows = static_cast<std::size_t>(std::max<int64_t>(plan.partial_rows, 1));
  DeviceArray<float> partials(partial_rows * static_cast<std::size_t>(config_.head_dim));
  DeviceArray<float2> stats(partial_rows);
  partials.fill(0xff);
  stats.fill(0xff);
  cuda::SpanArgs work = args(q, out);
  if (cuda::in_bytes(config_.cache)) {
    work.layout = byte_layout_;
    work.kv = byte_kv_.data() + kLayer * byte_layout_.layer_elements;
  }
  work.block_table = device_table.data();
  work.partials = partials.data();
  work.partial_stats = stats.data();
  const DeviceArray<int32_t> block_begin(plan.block_begin);
  const DeviceArray<cuda::SharedRun> shared_runs(plan.shared_runs);
  const DeviceArray<cuda::SharedRow> shared_rows(plan.shared_rows);
  const cuda::SharedWork shared{block_begin.data(), shared_runs.data(), shared_rows.data(), method.num_shared_blocks};
  poison_shared_memory();
  check_cuda(kernels_.decode(work, {begin.data(), runs.data(), method.num_blocks, shared}, nullptr), "decode");
  check_cuda(cuda::span_merge(work, merges.data(), counts.data(), 7, nullptr), "merge");
  poison_shared_memory();
  const auto num_prefill = static_cast<int32_t>(plan.prefill.size());
  check_cuda(kernels_.prefill(work, prefill.data(), num_prefill, method.num_blocks, nullptr), "prefill");
  check_cuda(cudaDeviceSynchronize(), "run");
  const std::vector<Bf16> values = out.values();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rows[keys[i]].assign(&values[i * row_size], &values[i * row_size] + row_size);
  }
  return plan;
}

Rows World::reference(const std::vector<Chunk>& batch) {
  const std::vector<RowKey> keys = rows_of(batch);
  const DeviceArray<Bf16> q(queries(keys));
  const std::size_t row_size = static_cast<std::size_t>(config_.num_heads * config_.head_dim);
  DeviceArray<Bf16> out(keys.size() * row_size);
  out.fill(0xee);
  std::vector<cuda::reference::SpanRow> list;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    for (int32_t head = 0; head < config_.num_heads; ++head) {
      const bool padding = keys[i].seq < 0;
      list.push_back({padding ? 0 : keys[i].seq * max_blocks_, static_cast<int32_t>(i), padding ? -1 : keys[i].position,
                      head, head / (config_.num_heads / config_.num_kv_heads)});
    }
  }
  const DeviceArray<cuda::reference::SpanRow> device_rows(list);
  check_cuda(
      cuda::reference::span_rows(args(q, out), device_rows.data(), static_cast<int32_t>(list.size()), {}, nullptr),
      "reference");
  check_cuda(cudaDeviceSynchronize(), "reference");
  const std::vector<Bf16> values = out.values();
  Rows rows;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    rows[keys[i]].assign(&values[i * row_size], &values[i * row_size] + row_size);
  }
  return rows;
}

std::vector<double> World::exact(RowKey row) const {
  const std::vector<Bf16> q = q_row(row);
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  std::vector<double> out(q.size());
  for (int32_t head = 0; head < config_.num_heads; ++head) {
    const int32_t kv = head / (config_.num_heads / config_.num_kv_heads);
    const int32_t low = config_.window > 0 ? std::max(0, row.position - config_.window + 1) : 0;
    const std::size_t at = static_cast<std::size_t>(head) * dim;
    std::vector<double> scores;
    for (int32_t key = low; key <= row.position; ++key) {
      const std::vector<Bf16> k = kv_head(row.seq, key, kv, false);
      double s = 0;
      for (std::size_t d = 0; d < dim; ++d) s += static_cast<double>(widen(q[at + d])) * widen(k[d]);
      scores.push_back(s / std::sqrt(static_cast<double>(dim)));
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double sum = 0;
    for (double& s : scores) sum += s = std::exp(s - largest);
    for (int32_t key = low; key <= row.position; ++key) {
      const std::vector<Bf16> v = kv_head(row.seq, key, kv, true);
      for (std::size_t d = 0; d < dim; ++d) {
        out[at + d] += scores[static_cast<std::size_t>(key - low)] / sum * widen(v[d]);
      }
    }
  }
  return out;
}

}  // namespace mortise::test
