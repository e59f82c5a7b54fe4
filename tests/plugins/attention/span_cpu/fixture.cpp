#include "fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <random>
#include <stdexcept>
#include <thread>

#include "groups.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/cpu/reference/linear_fp8.hpp"
#include "kernels/cpu/reference/linear_int.hpp"
#include "kernels/cpu/reference/norm.hpp"
#include "kernels/cpu/reference/rope.hpp"
#include "kernels/cpu/reference/span.hpp"
#include "kernels/cpu/span/span.hpp"
#include "loader/option_reader.hpp"
#include "mortise/ext/kv_reads.h"

namespace mortise::test {
namespace {

using cpu::Bf16;

constexpr float kEps = 1e-5f;
constexpr int32_t kMaxPositions = 4096;

Bf16 to_bf16(float x) {
  const auto u = std::bit_cast<uint32_t>(x);
  return static_cast<Bf16>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}
float from_bf16(Bf16 h) {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}
float widen(Bf16 x) {
  return from_bf16(x);
}
float widen(float x) {
  return x;
}
template <typename T>
T narrow(float x) {
  if constexpr (sizeof(T) == 2) {
    return to_bf16(x);
  } else {
    return x;
  }
}

// ---- the device ----

void run_tasks(mortise_device* device, int32_t num_tasks, mortise_task task, void* context) {
  std::atomic<int32_t> next = 0;
  const auto work = [&](int32_t thread) {
    const cpu::DenormalsOff off;
    for (int32_t i; (i = next++) < num_tasks;) task(context, i, thread);
  };
  std::vector<std::jthread> threads;
  for (int32_t t = 1; t < device->num_threads; ++t) threads.emplace_back(work, t);
  work(0);
}

const mortise_parallel_table kParallel = {
    sizeof(mortise_parallel_table),
    0,
    [](mortise_device* device) { return device->num_threads; },
    run_tasks,
    [](mortise_device* device) { return device->isa.c_str(); },
};

const void* vector_weight(mortise_device*, const mortise_weight* weight, int64_t* n, int32_t* dtype) {
  *n = static_cast<int64_t>(weight->values.size());
  *dtype = MORTISE_F32;
  return weight->values.data();
}

// ---- the host ----

std::atomic<int64_t> held_bytes = 0;

void* host_allocate(const mortise_host*, uint64_t bytes, uint64_t alignment) {
  const uint64_t size = (bytes + alignment + 63) / alignment * alignment;
  auto* memory = static_cast<uint64_t*>(std::aligned_alloc(alignment, alignment + size));
  memory[0] = size;
  held_bytes += static_cast<int64_t>(size);
  std::memset(reinterpret_cast<char*>(memory) + alignment, 0xff, size);  // NaN
  return reinterpret_cast<char*>(memory) + alignment;
}
void host_free(const mortise_host*, void* memory) {
  if (memory == nullptr) return;
  auto* start = reinterpret_cast<uint64_t*>(static_cast<char*>(memory) - 64);  // the plugin asks for 64
  held_bytes -= static_cast<int64_t>(start[0]);
  std::free(start);
}

const mortise_host kHost = {sizeof(mortise_host),
                            0,
                            MORTISE_ABI_MINOR,
                            0,
                            "mortise",
                            "test",
                            [](const mortise_host*, int32_t, mortise_string_view) {},
                            host_allocate,
                            host_free,
                            [](const mortise_host*) -> uint64_t { return 0; },
                            [](const mortise_host*, const char*) -> const void* { return nullptr; }};

int32_t window(const Config& config, int32_t layer) {
  return config.windows.empty() ? 0 : config.windows[static_cast<std::size_t>(layer)];
}

std::vector<float> rope_table(const Config& config, bool sine) {
  std::vector<float> table;
  for (int32_t position = 0; position < kMaxPositions; ++position) {
    for (int32_t i = 0; i < config.rotary_dim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / config.rotary_dim);
      table.push_back(static_cast<float>(sine ? std::sin(angle) : std::cos(angle)));
    }
  }
  return table;
}

mortise_weight norm_of(const Config& config, uint32_t salt) {
  std::mt19937 rng(config.seed * 7 + salt);
  std::normal_distribution<float> normal(1, 0.25f);
  mortise_weight weight;
  for (int32_t i = 0; i < config.head_dim; ++i) weight.values.push_back(from_bf16(to_bf16(normal(rng))));
  return weight;
}

}  // namespace

const mortise_device_table* device_table() {
  static const mortise_device_table table = [] {
    auto t = sized<mortise_device_table>();
    t.vector_weight = vector_weight;
    t.numerics_id = [](mortise_device* device, int32_t dtype) {
      return dtype == MORTISE_F32 ? "cpu-f32/1" : device->pairs ? "cpu-bf16-pairs/1" : "cpu-bf16/1";
    };
    t.get_ext = [](mortise_device*, const char* id) -> const void* {
      return std::string_view(id) == MORTISE_EXT_PARALLEL ? &kParallel : nullptr;
    };
    return t;
  }();
  return &table;
}

const mortise_host* host() {
  return &kHost;
}
int64_t host_bytes() {
  return held_bytes;
}

Attention::Attention(const Config& config)
    : config_(config),
      device_{config.num_threads, config.isa, config.pairs},
      table_(static_cast<const mortise_attention_table*>(config.component->table)),
      cos_(rope_table(config, false)),
      sin_(rope_table(config, true)),
      q_norm_(norm_of(config, 1)),
      k_norm_(norm_of(config, 2)) {
  auto create = sized<mortise_create_args>();
  const OptionReader options(nlohmann::json{{"block_size", 16}});
  options.give_to(create);
  create.device = &device_;
  create.device_table = device_table();
  create.world = 1;
  mortise_error error = make_error();
  void* instance = nullptr;
  check(config_.component->create(&kHost, &create, &instance, &error), error);
  attention_ = static_cast<mortise_attention*>(instance);

  dims_ = sized<mortise_model_dims>();
  dims_.num_layers = config.num_layers;
  dims_.num_heads = config.num_heads;
  dims_.num_kv_heads = config.num_kv_heads;
  dims_.head_dim = config.head_dim;
  dims_.dtype = config.dtype;
  dims_.max_model_len = kMaxPositions;
  dims_.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  dims_.sliding_windows = config.windows.empty() ? nullptr : config_.windows.data();
  auto layout = sized<mortise_kv_layout>();
  check(table_->kv_layout(attention_, &dims_, config.kv_dtype(), config.block_size, &layout, &error), error);
  const auto num_blocks = static_cast<std::size_t>(config.num_blocks);
  kv_.resize(layout.bytes_per_block * num_blocks + 256, config.has_scales() ? 0xff : 0);  // NaN where nobody wrote
  auto bind = sized<mortise_attention_bind_args>();
  bind.dims = &dims_;
  bind.kv_dtype = config.kv_dtype();
  bind.block_size = config.block_size;
  bind.num_blocks = config.num_blocks;
  bind.kv = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(kv_.data()) + 255) / 256 * 256);
  bind.kv_bytes = layout.bytes_per_block * num_blocks;
  check(table_->bind(attention_, &bind, &error), error);
  auto activate = sized<mortise_activate_args>();
  activate.max_batched_tokens = 64;
  check(config_.component->activate(attention_, &activate, &error), error);

  free_blocks_.resize(num_blocks - 1);
  std::iota(free_blocks_.begin(), free_blocks_.end(), 1);  // block 0 is for padding rows
  std::shuffle(free_blocks_.begin(), free_blocks_.end(), std::mt19937(config.seed));
}

Attention::~Attention() {
  config_.component->deactivate(attention_);
  config_.component->destroy(attention_);
}

// A new one has the whole blocks of its prefix.
Attention::Sequence& Attention::sequence(int32_t seq) {
  const auto [at, is_new] = sequences_.try_emplace(seq);
  if (is_new && config_.prefixes.contains(seq)) {
    const Config::Prefix prefix = config_.prefixes[seq];
    const int32_t blocks = prefix.tokens / config_.block_size;
    const Sequence& from = sequence(prefix.seq);
    if (from.length < blocks * config_.block_size) throw std::logic_error("a prefix that is not there yet");
    at->second.blocks.assign(from.blocks.begin(), from.blocks.begin() + blocks);
    at->second.length = blocks * config_.block_size;
  }
  return at->second;
}

void Attention::grow(Sequence& sequence, int32_t length) {
  while (static_cast<int32_t>(sequence.blocks.size()) * config_.block_size < length) {
    sequence.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
}

void Attention::end(int32_t seq) {
  const std::vector<int32_t>& blocks = sequences_.at(seq).blocks;
  free_blocks_.insert(free_blocks_.end(), blocks.rbegin(), blocks.rend());  // the next sequence gets them in this order
  sequences_.erase(seq);
}

void Attention::fork(int32_t from, int32_t to) {
  const Sequence source = sequences_[from];
  Sequence& copy = sequences_[to];
  grow(copy, static_cast<int32_t>(source.blocks.size()) * config_.block_size);
  copy.length = source.length;
  mortise_error error = make_error();
  check(table_->copy_blocks(attention_, nullptr, source.blocks.data(), copy.blocks.data(),
                            static_cast<int32_t>(source.blocks.size()), &error),
        error);
}

struct Attention::Batch {
  std::vector<RowKey> rows;  // layer is not set
  std::vector<uint64_t> seq_ids;
  std::vector<int32_t> token_ids, positions, cu_seqlens_q{0}, seq_lens, block_table;
  std::vector<int64_t> slots;
  Groups groups;
  mortise_batch view;
};

void Attention::step(const std::vector<Run>& runs, Rows& rows) {
  Batch b;
  std::size_t max_blocks = 1;
  for (const Run& run : runs) {
    Sequence& state = sequence(run.seq);
    grow(state, state.length + run.count);
    max_blocks = std::max(max_blocks, state.blocks.size());
  }
  for (const Run& run : runs) {
    Sequence& state = sequence(run.seq);
    const int32_t first = state.length;
    for (int32_t i = 0; i < std::max(run.count, 1); ++i) {
      const int32_t position = first + i;
      b.rows.push_back({run.count == 0 ? -1 : names_.contains(run.seq) ? names_[run.seq] : run.seq, position, 0});
      b.positions.push_back(run.count == 0 ? 0 : position);
      const int64_t block = run.count == 0 ? 0 : state.blocks[static_cast<std::size_t>(position / config_.block_size)];
      b.slots.push_back(run.count == 0 ? 0 : block * config_.block_size + position % config_.block_size);
    }
    if (run.count > 0) state.length += run.count;
    b.seq_ids.push_back(static_cast<uint64_t>(run.seq));
    b.cu_seqlens_q.push_back(static_cast<int32_t>(b.rows.size()));
    b.seq_lens.push_back(run.count == 0 ? 0 : state.length);
    b.block_table.insert(b.block_table.end(), state.blocks.begin(), state.blocks.end());
    b.block_table.resize(b.seq_lens.size() * max_blocks, INT32_MIN);  // not to be read
  }
  b.token_ids.resize(b.rows.size());
  b.view = sized<mortise_batch>();
  b.view.step_id = ++step_id_;
  b.view.num_seqs = b.view.num_real_seqs = static_cast<int32_t>(runs.size());
  b.view.num_tokens = b.view.num_real_tokens = static_cast<int32_t>(b.rows.size());
  b.view.block_size = config_.block_size;
  b.view.max_blocks = static_cast<int32_t>(max_blocks);
  b.view.seq_ids = b.seq_ids.data();
  b.view.token_ids = b.view.device_token_ids = b.token_ids.data();
  b.view.positions = b.view.device_positions = b.positions.data();
  b.view.cu_seqlens_q = b.view.device_cu_seqlens_q = b.cu_seqlens_q.data();
  b.view.seq_lens = b.view.device_seq_lens = b.seq_lens.data();
  b.view.block_table = b.view.device_block_table = b.block_table.data();
  b.view.slot_mapping = b.view.device_slot_mapping = b.slots.data();

  b.groups = groups_of(b.view);
  b.groups.tell(b.view);

  mortise_error error = make_error();
  check(plan(b.view, &error), error);
  auto step = sized<mortise_step>();
  step.batch = &b.view;
  step.device = &device_;
  step.device_table = device_table();
  const auto* reads =
      static_cast<const mortise_kv_reads_table*>(config_.component->get_ext(attention_, MORTISE_EXT_KV_READS));
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    config_.dtype == MORTISE_BF16 ? run_layer<Bf16>(step, b, layer, rows) : run_layer<float>(step, b, layer, rows);
    kv_bytes_read_ += reads->kv_bytes(attention_, layer);
  }
}

mortise_status Attention::plan(const mortise_batch& batch, mortise_error* error) {
  auto step = sized<mortise_step>();
  step.batch = &batch;
  step.device = &device_;
  step.device_table = device_table();
  return table_->plan(attention_, &step, error);
}

template <typename T>
void Attention::run_layer(const mortise_step& step, const Batch& batch, int32_t layer, Rows& rows) {
  const int32_t heads[3] = {config_.num_heads, config_.num_kv_heads, config_.num_kv_heads};
  const std::size_t head_dim = static_cast<std::size_t>(config_.head_dim), num_rows = batch.rows.size();
  // q, k and v are views of one matrix, as a fused product leaves them.
  const std::size_t columns = head_dim * static_cast<std::size_t>(heads[0] + heads[1] + heads[2]) + 8;
  std::vector<T> qkv(num_rows * columns), out(num_rows * head_dim * static_cast<std::size_t>(heads[0]), narrow<T>(3));
  std::size_t column[3] = {};
  for (int32_t kind = 0; kind < 3; ++kind) {
    if (kind > 0) column[kind] = column[kind - 1] + head_dim * static_cast<std::size_t>(heads[kind - 1]);
    for (std::size_t r = 0; r < num_rows; ++r) {
      const RowKey key = {batch.rows[r].seq, batch.rows[r].position, layer};
      const std::vector<float> values = row_values(config_, key, kind, heads[kind]);
      std::transform(values.begin(), values.end(), &qkv[r * columns + column[kind]], narrow<T>);
    }
  }
  const auto tensor = [&](T* data, std::size_t elements, int32_t num_heads, std::size_t row_stride) {
    mortise_tensor t = make_tensor(data, config_.dtype, static_cast<int64_t>(num_rows), num_heads);
    t.ndim = 3;
    t.shape[2] = config_.head_dim;
    t.stride[0] = static_cast<int64_t>(row_stride);
    t.stride[1] = config_.head_dim;
    t.bytes = elements * sizeof(T);
    return t;
  };
  mortise_tensor parts[3];
  for (int i = 0; i < 3; ++i) parts[i] = tensor(qkv.data() + column[i], qkv.size() - column[i], heads[i], columns);
  const mortise_tensor result = tensor(out.data(), out.size(), heads[0], head_dim * static_cast<std::size_t>(heads[0]));
  auto rope = sized<mortise_rope>();
  rope.cos = cos_.data();
  rope.sin = sin_.data();
  rope.rotary_dim = config_.rotary_dim;
  rope.interleaved = config_.interleaved ? 1 : 0;
  auto append = sized<mortise_append_args>();
  append.layer = layer;
  append.q = &parts[0];
  append.k = &parts[1];
  append.v = &parts[2];
  append.rope = config_.rotary_dim > 0 ? &rope : nullptr;
  append.q_norm = config_.qk_norm ? &q_norm_ : nullptr;
  append.k_norm = config_.qk_norm ? &k_norm_ : nullptr;
  append.norm_eps = kEps;
  mortise_error error = make_error();
  check(table_->append(attention_, &step, &append, &error), error);
  check(table_->run(attention_, &step, layer, &parts[0], &result, &error), error);
  const std::size_t row_size = head_dim * static_cast<std::size_t>(heads[0]);
  for (std::size_t r = 0; r < num_rows; ++r) {
    std::vector<float>& row = rows[{batch.rows[r].seq, batch.rows[r].position, layer}];
    row.clear();
    for (std::size_t i = 0; i < row_size; ++i) row.push_back(widen(out[r * row_size + i]));
  }
}

std::vector<float> row_values(const Config& config, RowKey row, int32_t kind, int32_t num_heads) {
  for (auto at = config.prefixes.find(row.seq); at != config.prefixes.end() && row.position < at->second.tokens;
       at = config.prefixes.find(row.seq)) {
    row.seq = at->second.seq;
  }
  std::seed_seq seed{config.seed, static_cast<uint32_t>(row.seq), static_cast<uint32_t>(row.position),
                     static_cast<uint32_t>(row.layer * 3 + kind)};
  std::minstd_rand rng(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(static_cast<std::size_t>(num_heads * config.head_dim));
  for (float& x : values) x = config.dtype == MORTISE_BF16 ? from_bf16(to_bf16(normal(rng))) : normal(rng);
  if (kind == 2 && config.broken.contains({row.seq, row.position})) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    constexpr float kNotFinite[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
    for (int32_t head = 0; head < num_heads; ++head) {
      const auto d = static_cast<int32_t>(rng() % static_cast<uint32_t>(config.head_dim));
      values[static_cast<std::size_t>(head * config.head_dim + d)] = kNotFinite[rng() % 3];
    }
  }
  return values;
}

namespace {

// q or k of a row after norm and rope.
template <typename T>
std::vector<float> prepared(const Config& config, RowKey row, int32_t kind, int32_t num_heads,
                            const mortise_weight& norm, const std::vector<float>& cos, const std::vector<float>& sin) {
  std::vector<float> values = row_values(config, row, kind, num_heads);
  const std::size_t head_dim = static_cast<std::size_t>(config.head_dim);
  for (std::size_t at = 0; at < values.size(); at += head_dim) {
    if (config.qk_norm) {
      std::vector<T> x(head_dim), weight(head_dim), out(head_dim);
      std::transform(&values[at], &values[at] + head_dim, x.begin(), narrow<T>);
      std::transform(norm.values.begin(), norm.values.end(), weight.begin(), narrow<T>);
      cpu::reference::rms_norm<T>(x.data(), nullptr, weight.data(), out.data(), head_dim, kEps);
      std::transform(out.begin(), out.end(), &values[at], [](T x) { return widen(x); });
    }
    if (config.rotary_dim > 0) {
      const std::size_t angle = static_cast<std::size_t>(row.position * (config.rotary_dim / 2));
      const auto pairs =
          config.interleaved ? cpu::reference::RopePairs::kInterleaved : cpu::reference::RopePairs::kHalves;
      cpu::reference::rope<T>(pairs, &values[at], &cos[angle], &sin[angle],
                              static_cast<std::size_t>(config.rotary_dim));
    }
  }
  return values;
}

// Appends a head of K or V to what its cache holds.
void append_head(const Config& config, const float* head, std::vector<float>& numbers, std::vector<float>& scales) {
  if (!config.has_scales()) {
    numbers.insert(numbers.end(), head, head + config.head_dim);
    return;
  }
  if (config.fp8_cache) {
    const auto dim = static_cast<std::size_t>(config.head_dim);
    const cpu::reference::Fp8Weight row = cpu::reference::quantize_fp8({head, head + dim}, 1, dim);
    for (const std::uint8_t value : row.values) numbers.push_back(cpu::reference::from_e4m3(value));
    scales.push_back(row.scales[0]);
    return;
  }
  const cpu::reference::IntRow row = cpu::reference::quantize_activations({head, head + config.head_dim});
  numbers.insert(numbers.end(), row.q.begin(), row.q.end());
  scales.push_back(row.scale);
}

template <typename T>
void expect_rows(const Config& config, int32_t seq, int32_t length, const Rows& rows) {
  const cpu::DenormalsOff off;
  const std::vector<float> cos = rope_table(config, false), sin = rope_table(config, true);
  const mortise_weight q_norm = norm_of(config, 1), k_norm = norm_of(config, 2);
  const int32_t head_dim = config.head_dim, group = config.num_heads / config.num_kv_heads;
  const float scale = cpu::span_scale(1.0f / std::sqrt(static_cast<float>(head_dim)));
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    std::vector<std::vector<float>> k(static_cast<std::size_t>(config.num_kv_heads)), v = k, k_scales = k, v_scales = k;
    for (int32_t position = 0; position < length; ++position) {
      const RowKey key = {seq, position, layer};
      auto k_row = prepared<T>(config, key, 1, config.num_kv_heads, k_norm, cos, sin);
      auto v_row = row_values(config, key, 2, config.num_kv_heads);
      for (std::size_t h = 0; h < k.size(); ++h) {
        const std::size_t at = h * static_cast<std::size_t>(head_dim);
        cpu::reference::span_written(&k_row[at], &v_row[at], head_dim);
        append_head(config, &k_row[at], k[h], k_scales[h]);
        append_head(config, &v_row[at], v[h], v_scales[h]);
      }
    }
    for (int32_t position = 0; position < length; ++position) {
      const auto found = rows.find({seq, position, layer});
      if (found == rows.end()) continue;
      const auto q = prepared<T>(config, found->first, 0, config.num_heads, q_norm, cos, sin);
      std::vector<float> expected(q.size());
      for (int32_t h = 0; h < config.num_heads; ++h) {
        const std::size_t kv = static_cast<std::size_t>(h / group), at = static_cast<std::size_t>(h * head_dim);
        cpu::reference::span_row(
            {sizeof(T) == 2, sizeof(T) == 2 && config.pairs, &q[at], k[kv].data(), v[kv].data(), head_dim, position,
             window(config, layer), scale, config.has_scales() ? k_scales[kv].data() : nullptr,
             config.has_scales() ? v_scales[kv].data() : nullptr},
            &expected[at]);
      }
      ASSERT_EQ(std::memcmp(expected.data(), found->second.data(), expected.size() * sizeof(float)), 0)
          << "sequence " << seq << ", position " << position << ", layer " << layer << ", " << config.isa << ", "
          << config.num_threads << " threads, seed " << config.seed << (config.pairs ? ", pairs" : "")
          << (config.int8_cache  ? ", int8 cache"
              : config.fp8_cache ? ", fp8 cache"
                                 : "");
    }
  }
}

}  // namespace

void expect_reference_rows(const Config& config, int32_t seq, int32_t length, const Rows& rows) {
  config.dtype == MORTISE_BF16 ? expect_rows<Bf16>(config, seq, length, rows)
                               : expect_rows<float>(config, seq, length, rows);
}

}  // namespace mortise::test
