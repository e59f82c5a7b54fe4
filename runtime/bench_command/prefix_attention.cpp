#include "bench_command/prefix_attention.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench_command/random_model.hpp"
#include "bench_command/subject.hpp"
#include "error.hpp"
#include "execution/model_stack.hpp"
#include "execution/rank_group.hpp"
#include "loader/catalog.hpp"
#include "mortise/ext/kv_reads.h"

namespace mortise::bench {
namespace {

// With this many layers, the KV of the first layer has left the processor's caches when the next step begins.
constexpr std::int32_t kLayers = 4;
constexpr std::int64_t kRowsAtOnce = 512;  // rows written into the cache at a time
constexpr const char* kAttentionNames[] = {"paged", "cascade"};

std::int64_t ceil_div(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

PartInstance open_device(const PipelineDescription& description) {
  const PartChoice& choice = description.device.select(description.query());
  PartInstance instance(*choice.component, choice.options, CreateContext{});
  if (const auto world = num_ranks_of(instance.active_part<mortise_device, mortise_device_table>()); world > 1) {
    fail(
        "bench attention: measures one device with all heads, but the pipeline has {} ranks; leave `devices` or "
        "`shards` out",
        world);
  }
  instance.activate();
  return instance;
}

mortise_model_dims dims_of(const ModelShape& shape, std::int64_t max_model_len) {
  mortise_model_dims dims{};
  dims.struct_size = sizeof dims;
  dims.num_layers = static_cast<std::int32_t>(std::min<std::int64_t>(shape.num_layers, kLayers));
  dims.hidden_size = static_cast<std::int32_t>(shape.hidden_size);
  dims.num_heads = static_cast<std::int32_t>(shape.num_heads);
  dims.num_kv_heads = static_cast<std::int32_t>(shape.num_kv_heads);
  dims.head_dim = static_cast<std::int32_t>(shape.head_dim);
  dims.vocab_size = static_cast<std::int32_t>(shape.vocab_size);
  dims.max_model_len = static_cast<std::int32_t>(max_model_len);
  dims.dtype = MORTISE_BF16;
  dims.attention_scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
  return dims;
}

std::int32_t kv_dtype_of(const PipelineDescription& description) {
  switch (description.kv_cache.dtype) {
    case KvDtype::kInt8:
      return MORTISE_I8;
    case KvDtype::kFp8:
      return MORTISE_F8_E4M3;
    case KvDtype::kF32:
      return MORTISE_F32;
    default:
      return MORTISE_BF16;
  }
}

CreateContext context_of(const DevicePart& device) {
  CreateContext context;
  context.device = device.self;
  context.device_table = device.api;
  return context;
}

std::size_t row_elements(const mortise_model_dims& dims, std::int32_t num_heads) {
  return static_cast<std::size_t>(num_heads) * static_cast<std::size_t>(dims.head_dim);
}

}  // namespace

PrefixSide::PrefixSide(const DevicePart& device, const Component& component, const mortise_model_dims& dims,
                       const ExecutionLimits& limits, std::int32_t kv_dtype)
    : parts_{.device = device, .prefix_groups = (component.capabilities & MORTISE_CAP_CASCADE) != 0},
      instance_(component, {{"block_size", limits.block_size}}, context_of(device)),
      self_(instance_.handle<mortise_attention>()),
      table_(*instance_.table<mortise_attention_table>()),
      dims_(dims),
      limits_(limits),
      kv_dtype_(kv_dtype),
      builder_(parts_, limits_),
      upload_(parts_.device),
      out_(parts_.device),
      download_(parts_.device) {
  step_.struct_size = sizeof step_;
  step_.device = device.self;
  step_.device_table = device.api;
  step_.attention = self_;
  step_.attention_table = &table_;
  step_.world = 1;
  const auto rows = static_cast<std::size_t>(limits.max_batched_tokens);
  const auto put = [&](std::int32_t num_heads) {
    std::vector<std::uint16_t> values = random_bf16(rows * row_elements(dims, num_heads));
    // Makes the values as large as after a norm, so that softmax is not nearly uniform.
    for (std::uint16_t& x : values) x = static_cast<std::uint16_t>(x + (5 << 7));  // times 32
    return upload_.put(std::span<const std::uint16_t>(values));
  };
  q_ = put(dims.num_heads);
  k_ = put(dims.num_kv_heads);
  v_ = put(dims.num_kv_heads);
  upload_.upload();
  out_.reserve(rows * row_elements(dims, dims.num_heads) * sizeof(std::uint16_t));
}

mortise_kv_layout PrefixSide::layout() const {
  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  mortise_error error = empty_error();
  instance_.check(table_.kv_layout(self_, &dims_, kv_dtype_, limits_.block_size, &layout, &error), error, "kv_layout");
  return layout;
}

void PrefixSide::bind(void* kv, std::uint64_t bytes) {
  mortise_attention_bind_args args{};
  args.struct_size = sizeof args;
  args.dims = &dims_;
  args.kv_dtype = kv_dtype_;
  args.block_size = limits_.block_size;
  args.num_blocks = limits_.num_blocks;
  args.kv = kv;
  args.kv_bytes = bytes;
  mortise_error error = empty_error();
  instance_.check(table_.bind(self_, &args, &error), error, "bind");
  mortise_activate_args sizes{};
  sizes.struct_size = sizeof sizes;
  sizes.max_num_seqs = limits_.max_num_seqs;
  sizes.max_batched_tokens = limits_.max_batched_tokens;
  sizes.max_model_len = limits_.max_model_len;
  sizes.block_size = limits_.block_size;
  sizes.num_blocks = limits_.num_blocks;
  instance_.activate(sizes);
}

void PrefixSide::plan(std::span<const RowRun> runs) {
  step_.batch = &builder_.build(++num_steps_, runs, {}, {});
  mortise_error error = empty_error();
  instance_.check(table_.plan(self_, &step_, &error), error, "plan");
}

mortise_tensor PrefixSide::heads(void* data, std::int64_t num_rows, std::int32_t num_heads) const {
  mortise_tensor tensor = matrix(data, MORTISE_BF16, num_rows, num_heads);
  tensor.ndim = 3;
  tensor.shape[2] = dims_.head_dim;
  tensor.stride[0] = static_cast<std::int64_t>(row_elements(dims_, num_heads));
  tensor.stride[1] = dims_.head_dim;
  tensor.stride[2] = 1;
  tensor.bytes = static_cast<std::uint64_t>(num_rows * tensor.stride[0]) * sizeof(std::uint16_t);
  return tensor;
}

void PrefixSide::append(std::span<const RowRun> runs, std::int64_t num_rows) {
  plan(runs);
  const mortise_tensor q = heads(upload_.device<std::uint16_t>(q_), num_rows, dims_.num_heads);
  const mortise_tensor k = heads(upload_.device<std::uint16_t>(k_), num_rows, dims_.num_kv_heads);
  const mortise_tensor v = heads(upload_.device<std::uint16_t>(v_), num_rows, dims_.num_kv_heads);
  mortise_append_args args{};
  args.struct_size = sizeof args;
  args.q = &q;
  args.k = &k;
  args.v = &v;
  mortise_error error = empty_error();
  for (args.layer = 0; args.layer < dims_.num_layers; ++args.layer) {
    instance_.check(table_.append(self_, &step_, &args, &error), error, "append");
  }
}

void PrefixSide::run(std::span<const RowRun> runs, std::int64_t num_rows) {
  plan(runs);
  const mortise_tensor q = heads(upload_.device<std::uint16_t>(q_), num_rows, dims_.num_heads);
  const mortise_tensor out = heads(out_.reserve(0), num_rows, dims_.num_heads);
  mortise_error error = empty_error();
  for (std::int32_t layer = 0; layer < dims_.num_layers; ++layer) {
    instance_.check(table_.run(self_, &step_, layer, &q, &out, &error), error, "run");
  }
}

void PrefixSide::wait() const {
  synchronize(parts_.device);
}

std::optional<std::uint64_t> PrefixSide::kv_bytes_read() const {
  const auto* reads = static_cast<const mortise_kv_reads_table*>(instance_.get_ext(MORTISE_EXT_KV_READS));
  if (reads == nullptr) return std::nullopt;
  std::uint64_t bytes = 0;
  for (std::int32_t layer = 0; layer < dims_.num_layers; ++layer) bytes += reads->kv_bytes(self_, layer);
  return bytes;
}

std::vector<std::uint16_t> PrefixSide::out(std::int64_t num_rows) {
  const std::size_t count = static_cast<std::size_t>(num_rows) * row_elements(dims_, dims_.num_heads);
  const auto values = download_.fetch(static_cast<const std::uint16_t*>(out_.reserve(0)), count);
  return {values.begin(), values.end()};
}

PrefixAttention::PrefixAttention(const PipelineDescription& description, const ModelShape& shape,
                                 const PrefixWork& work)
    : work_(work),
      device_instance_(open_device(description)),
      device_{device_instance_.handle<mortise_device>(), device_instance_.table<mortise_device_table>(),
              device_instance_.component().label()},
      dims_(dims_of(shape, work.shared + work.own)) {
  const std::int32_t block_size = description.block_size;
  limits_.max_num_seqs = static_cast<std::int32_t>(work.members);
  limits_.max_batched_tokens = static_cast<std::int32_t>(std::max(kRowsAtOnce, work.members));
  limits_.max_model_len = dims_.max_model_len;
  limits_.block_size = block_size;
  const std::int64_t whole = work.shared / block_size, all = ceil_div(work.shared + work.own, block_size);
  limits_.num_blocks = static_cast<std::int32_t>(whole + work.members * (all - whole));

  const std::int32_t kv_dtype = kv_dtype_of(description);
  mortise_query query = description.query();
  query.dims = &dims_;
  query.kv_dtype = kv_dtype;
  query.block_size = block_size;
  const PluginCatalog catalog(description.plugin_folders);
  for (std::size_t side : {kPaged, kCascade}) {
    const Component& component = catalog.select(PartKind::kAttention, kAttentionNames[side], query);
    sides_[side] = std::make_unique<PrefixSide>(device_, component, dims_, limits_, kv_dtype);
  }
  const mortise_kv_layout layout = sides_[kPaged]->layout(), other = sides_[kCascade]->layout();
  if (std::string_view(layout.layout_id) != other.layout_id) {
    fail("bench attention: paged keeps its cache as '{}' and cascade as '{}', so they cannot run on the same cache",
         layout.layout_id, other.layout_id);
  }
  kv_bytes_per_block_ = layout.bytes_per_block;
  make_runs();
  fill();
  for (const auto& side : sides_) side->run(runs_, work.members);
  if (sides_[kPaged]->out(work.members) != sides_[kCascade]->out(work.members)) {
    fail("bench attention: cascade does not give the same bits as paged, so neither was measured");
  }
}

// Assigns block ids as a pool would: first the prefix, then the members in turn.
void PrefixAttention::make_runs() {
  const std::int64_t block_size = limits_.block_size, whole = work_.shared / block_size;
  const std::int64_t all = ceil_div(work_.shared + work_.own, block_size);
  tokens_.assign(static_cast<std::size_t>(std::max<std::int64_t>(kRowsAtOnce, 1)), 1);
  blocks_.resize(static_cast<std::size_t>(work_.members));
  for (std::int64_t member = 0; member < work_.members; ++member) {
    std::vector<BlockId>& blocks = blocks_[static_cast<std::size_t>(member)];
    for (std::int64_t i = 0; i < whole; ++i) blocks.push_back(static_cast<BlockId>(i));
    for (std::int64_t i = whole; i < all; ++i) {
      blocks.push_back(static_cast<BlockId>(whole + (i - whole) * work_.members + member));
    }
    const auto last = static_cast<std::int32_t>(work_.shared + work_.own - 1);
    runs_.push_back({static_cast<std::uint64_t>(member) + 1, last, std::span(tokens_).first(1), {}, blocks});
  }
}

// Writes all tokens of the first member, and the unshared tokens of the others.
void PrefixAttention::fill() {
  const std::uint64_t bytes = static_cast<std::uint64_t>(limits_.num_blocks) * kv_bytes_per_block_;
  kv_ = std::make_unique<DeviceBuffer>(device_);
  void* const memory = kv_->reserve(bytes);
  for (const auto& side : sides_) side->bind(memory, bytes);
  const std::int64_t whole = work_.shared / limits_.block_size * limits_.block_size;
  for (std::size_t member = 0; member < blocks_.size(); ++member) {
    const std::int64_t end = work_.shared + work_.own;
    for (std::int64_t first = member == 0 ? 0 : whole; first < end; first += kRowsAtOnce) {
      const std::int64_t rows = std::min(kRowsAtOnce, end - first);
      const RowRun run = {member + 1,
                          static_cast<std::int32_t>(first),
                          std::span(tokens_).first(static_cast<std::size_t>(rows)),
                          {},
                          blocks_[member]};
      sides_[kPaged]->append({&run, 1}, rows);
      sides_[kPaged]->wait();
    }
  }
}

double PrefixAttention::seconds(std::size_t side) {
  PrefixSide& measured = *sides_[side];
  const auto step = [&] {
    measured.run(runs_, work_.members);
    measured.wait();
  };
  const std::size_t repeats = repeats_of_sample(step);
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < repeats; ++i) step();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return seconds.count() / static_cast<double>(repeats);
}

Work PrefixAttention::least_work() const {
  const double token_bytes = static_cast<double>(kv_bytes_per_block_) / limits_.block_size;  // of all layers
  const auto members = static_cast<double>(work_.members), own = static_cast<double>(work_.own);
  const auto shared = static_cast<double>(work_.shared);
  const double width = static_cast<double>(dims_.num_heads) * dims_.head_dim * dims_.num_layers;
  return {(shared + members * own) * token_bytes, 4 * members * (shared + own) * width};
}

mortise_device_info PrefixAttention::device() const {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  device_.value<&mortise_device_table::describe>("describe", mortise_status{MORTISE_INTERNAL}, &info);
  return info;
}

std::shared_ptr<LimitProbes> PrefixAttention::make_probes(const PipelineDescription& description) const {
  const mortise_device_info info = device();
  if (info.host_memory != 0) {
    const char* const id = numerics_id_of(device_, dims_.dtype);
    return std::make_shared<ProcessorProbes>(static_cast<std::size_t>(least_work().bytes),
                                             static_cast<std::size_t>(std::max(info.num_threads, 1)),
                                             unit_of_isa(info.isa, dims_.dtype, id == nullptr ? "" : id));
  }
  auto probed = ProbedDevice::open(description);
  return probed == nullptr ? nullptr : std::make_shared<DeviceStepProbes>(std::move(probed), ProductSizes{});
}

}  // namespace mortise::bench
