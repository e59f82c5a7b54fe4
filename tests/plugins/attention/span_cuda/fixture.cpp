#include "fixture.hpp"

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <string_view>

#include "loader/option_reader.hpp"
#include "world.hpp"

namespace mortise::test {
namespace {

constexpr int32_t kMaxPositions = 4096;

mortise_status status_of(cudaError_t error, mortise_error* out) {
  if (error == cudaSuccess) return MORTISE_OK;
  return set_error(out, MORTISE_INTERNAL, "device", cudaGetErrorString(error));
}

mortise_device_table make_device_table() {
  auto t = sized<mortise_device_table>();
  t.describe = [](mortise_device*, mortise_device_info* info) -> mortise_status {
    std::strncpy(info->isa, tests_sm_80() ? "sm_80" : "sm_90", sizeof info->isa - 1);
    return MORTISE_OK;
  };
  t.allocate = [](mortise_device*, uint64_t bytes, void** memory, mortise_error* error) {
    const mortise_status status = status_of(cudaMalloc(memory, bytes), error);
    return status != MORTISE_OK ? status : status_of(cudaMemset(*memory, 0, bytes), error);
  };
  t.free = [](mortise_device*, void* memory) { cudaFree(memory); };
  t.copy = [](mortise_device* device, mortise_stream*, void* to, const void* from, uint64_t bytes,
              mortise_error* error) {
    return status_of(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, device->stream), error);
  };
  t.stream_native = [](mortise_device* device, mortise_stream*) -> void* { return device->stream; };
  t.event_create = [](mortise_device*, mortise_event** event, mortise_error* error) {
    return status_of(cudaEventCreate(reinterpret_cast<cudaEvent_t*>(event)), error);
  };
  t.event_destroy = [](mortise_device*, mortise_event* event) {
    cudaEventDestroy(reinterpret_cast<cudaEvent_t>(event));
  };
  t.event_record = [](mortise_device* device, mortise_event* event, mortise_stream*, mortise_error* error) {
    return status_of(cudaEventRecord(reinterpret_cast<cudaEvent_t>(event), device->stream), error);
  };
  t.event_synchronize = [](mortise_device*, mortise_event* event, mortise_error* error) {
    return status_of(cudaEventSynchronize(reinterpret_cast<cudaEvent_t>(event)), error);
  };
  t.host_allocate = [](mortise_device*, uint64_t bytes, void** memory, mortise_error* error) {
    return status_of(cudaMallocHost(memory, bytes), error);
  };
  t.host_free = [](mortise_device*, void* memory) { cudaFreeHost(memory); };
  t.vector_weight = [](mortise_device*, const mortise_weight* weight, int64_t* n, int32_t* dtype) -> const void* {
    *n = weight->n;
    *dtype = MORTISE_BF16;
    return weight->data;
  };
  return t;
}

template <typename T>
void put(DeviceArray<T>& to, const std::vector<T>& from) {
  if (from.size() > to.size()) throw std::runtime_error("the fixture's buffers are too small");
  check_cuda(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
}

}  // namespace

const mortise_component* attention_component() {
  return mortise_plugin_entry_v0(nullptr)->components[0];
}

const mortise_device_table* device_table() {
  static const mortise_device_table table = make_device_table();
  return &table;
}

Attention::Attention(const AbiConfig& config)
    : config_(config),
      table_(static_cast<const mortise_attention_table*>(attention_component()->table)),
      qkv_(static_cast<std::size_t>(kMaxRows * columns())),
      out_(static_cast<std::size_t>(kMaxRows * config.num_heads * config.head_dim)),
      positions_(kMaxRows),
      starts_(kMaxSeqs + 1),
      lengths_(kMaxSeqs),
      blocks_(kMaxSeqs * kMaxBlocks),
      slots_(kMaxRows) {
  check_cuda(cudaStreamCreateWithFlags(&device_.stream, cudaStreamNonBlocking), "stream");
  std::vector<float> cos, sin;
  for (int32_t position = 0; position < kMaxPositions; ++position) {
    for (int32_t i = 0; i < config.head_dim / 2; ++i) {
      const double angle = position * std::pow(10000.0, -2.0 * i / config.head_dim);
      cos.push_back(static_cast<float>(std::cos(angle)));
      sin.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  cos_ = cos;
  sin_ = sin;
  norm_ = std::vector<uint16_t>(static_cast<std::size_t>(config.head_dim), narrow(1.25f));
  norm_weight_ = {norm_.data(), config.head_dim};
  dims_ = sized<mortise_model_dims>();
  dims_.num_layers = config.num_layers;
  dims_.num_heads = config.num_heads;
  dims_.num_kv_heads = config.num_kv_heads;
  dims_.head_dim = config.head_dim;
  dims_.hidden_size = config.num_heads * config.head_dim;
  dims_.dtype = MORTISE_BF16;
  dims_.max_model_len = kMaxPositions;
  dims_.attention_scale = 1.0f / std::sqrt(static_cast<float>(config.head_dim));
  dims_.sliding_windows = config_.windows.empty() ? nullptr : config_.windows.data();

  auto create = sized<mortise_create_args>();
  const OptionReader options(nlohmann::json{{"block_size", 16}});
  options.give_to(create);
  create.device = &device_;
  create.device_table = device_table();
  create.world = 1;
  mortise_error error = make_error();
  void* instance = nullptr;
  check(attention_component()->create(nullptr, &create, &instance, &error), error);
  attention_ = static_cast<mortise_attention*>(instance);
  auto layout = sized<mortise_kv_layout>();
  check(table_->kv_layout(attention_, &dims_, config.kv_dtype, config.block_size, &layout, &error), error);
  // Slots that nothing was written to hold numbers as large as can be: finite, as V of an earlier sequence would be.
  kv_.resize(layout.bytes_per_block / 2 * static_cast<std::size_t>(config.num_blocks));
  kv_.fill(config.kv_dtype == MORTISE_BF16 ? 0x7f : 0x7a);  // as a scale 3e35, which 448 does not make infinite
  auto bind = sized<mortise_attention_bind_args>();
  bind.dims = &dims_;
  bind.kv_dtype = config.kv_dtype;
  bind.block_size = config.block_size;
  bind.num_blocks = config.num_blocks;
  bind.kv = kv_.data();
  bind.kv_bytes = kv_.size() * 2;
  check(table_->bind(attention_, &bind, &error), error);
  auto activate = sized<mortise_activate_args>();
  activate.max_num_seqs = kMaxSeqs;
  activate.max_batched_tokens = kMaxRows;
  activate.max_model_len = kMaxPositions;
  activate.block_size = config.block_size;
  activate.num_blocks = config.num_blocks;
  check(attention_component()->activate(attention_, &activate, &error), error);
  free_blocks_.resize(static_cast<std::size_t>(config.num_blocks) - 1);  // block 0 is reserved for padding
  std::iota(free_blocks_.begin(), free_blocks_.end(), 1);
  std::mt19937 rng(3);
  std::shuffle(free_blocks_.begin(), free_blocks_.end(), rng);
}

Attention::~Attention() {
  cudaDeviceSynchronize();
  if (graph_ != nullptr) cudaGraphExecDestroy(graph_);
  attention_component()->deactivate(attention_);
  attention_component()->destroy(attention_);
  cudaStreamDestroy(device_.stream);
}

void Attention::share(int32_t from, int32_t to, int32_t tokens) {
  const std::vector<int32_t>& blocks = sequences_.at(from).blocks;
  sequences_[to] = {tokens, to, {blocks.begin(), blocks.begin() + tokens / config_.block_size}};
}

void Attention::fork(int32_t from, int32_t to) {
  Sequence& source = sequences_[from];
  Sequence copy;
  copy.length = source.length;
  copy.name = source.name;
  for (std::size_t i = 0; i < source.blocks.size(); ++i) {
    copy.blocks.push_back(free_blocks_.back());
    free_blocks_.pop_back();
  }
  mortise_error error = make_error();
  check(table_->copy_blocks(attention_, nullptr, source.blocks.data(), copy.blocks.data(),
                            static_cast<int32_t>(copy.blocks.size()), &error),
        error);
  sequences_[to] = copy;
}

void Attention::end(int32_t seq) {
  const std::vector<int32_t>& blocks = sequences_.at(seq).blocks;
  free_blocks_.insert(free_blocks_.end(), blocks.rbegin(),
                      blocks.rend());  // the next sequence gets them, in this order
  sequences_.erase(seq);
}

Attention::Batch Attention::make_batch(const std::vector<Piece>& pieces) {
  Batch batch;
  for (const Piece& piece : pieces) {
    if (sequences_.count(piece.seq) == 0) sequences_[piece.seq].name = piece.seq;
    Sequence& sequence = sequences_[piece.seq];
    for (int32_t i = 0; i < piece.count; ++i, ++sequence.length) {
      const int32_t position = sequence.length;
      if (position % config_.block_size == 0 &&
          static_cast<int32_t>(sequence.blocks.size()) <= position / config_.block_size) {
        sequence.blocks.push_back(free_blocks_.back());
        free_blocks_.pop_back();
      }
      batch.rows.push_back({sequence.name, position, 0});
      batch.positions.push_back(position);
      batch.slots.push_back(int64_t{sequence.blocks[static_cast<std::size_t>(position / config_.block_size)]} *
                                config_.block_size +
                            position % config_.block_size);
    }
    batch.starts.push_back(static_cast<int32_t>(batch.rows.size()));
    batch.lengths.push_back(sequence.length);
    std::vector<int32_t> blocks = sequence.blocks;
    blocks.resize(kMaxBlocks, 1 << 28);
    batch.blocks.insert(batch.blocks.end(), blocks.begin(), blocks.end());
  }
  return batch;
}

// Up to the bucket: padding rows are dealt to the padding sequences.
void Attention::pad(Batch& batch) const {
  while (batch.lengths.size() < kBucketSeqs) {
    const bool last = batch.lengths.size() + 1 == kBucketSeqs;
    const int32_t rows = kBucketRows - static_cast<int32_t>(batch.rows.size());
    for (int32_t i = 0, n = last ? rows : std::min(rows, 1); i < n; ++i) {
      batch.rows.push_back({-1, 0, 0});
      batch.positions.push_back(0);
      batch.slots.push_back(0);
    }
    batch.starts.push_back(static_cast<int32_t>(batch.rows.size()));
    batch.lengths.push_back(0);
    batch.blocks.insert(batch.blocks.end(), kMaxBlocks, 0);
  }
}

mortise_batch Attention::upload(const Batch& batch, bool bucket) {
  check_cuda(cudaDeviceSynchronize(), "step");
  put(positions_, batch.positions);
  put(starts_, batch.starts);
  put(lengths_, batch.lengths);
  put(blocks_, batch.blocks);
  put(slots_, batch.slots);
  auto view = sized<mortise_batch>();
  view.flags = bucket ? MORTISE_BATCH_BUCKET : 0;
  view.step_id = ++step_id_;
  view.num_seqs = view.num_real_seqs = static_cast<int32_t>(batch.lengths.size());
  view.num_tokens = view.num_real_tokens = static_cast<int32_t>(batch.rows.size());
  view.block_size = config_.block_size;
  view.max_blocks = kMaxBlocks;
  view.positions = batch.positions.data();
  view.cu_seqlens_q = batch.starts.data();
  view.seq_lens = batch.lengths.data();
  view.block_table = batch.blocks.data();
  view.slot_mapping = batch.slots.data();
  view.device_positions = positions_.data();
  view.device_cu_seqlens_q = starts_.data();
  view.device_seq_lens = lengths_.data();
  view.device_block_table = blocks_.data();
  view.device_slot_mapping = slots_.data();
  return view;
}

mortise_step Attention::step_of(const mortise_batch& view) {
  auto step = sized<mortise_step>();
  step.batch = &view;
  step.device = &device_;
  step.device_table = device_table();
  return step;
}

mortise_status Attention::plan(const mortise_batch& batch, mortise_error* error) {
  const mortise_step step = step_of(batch);
  return table_->plan(attention_, &step, error);
}

// Groups are of plan's time.
void Attention::plan_batch(mortise_batch& view) {
  mortise_error error = make_error();
  if (!config_.groups) return check(plan(view, &error), error);
  mortise_batch grouped = view;
  const Groups groups(grouped);
  check(plan(grouped, &error), error);
}

mortise_tensor Attention::tensor(uint16_t* data, int64_t num_rows, int32_t num_heads, int64_t row_stride) const {
  mortise_tensor t = make_tensor(data, MORTISE_BF16, num_rows, num_heads);
  t.ndim = 3;
  t.shape[2] = config_.head_dim;
  t.stride[0] = row_stride;
  t.stride[1] = config_.head_dim;
  t.bytes = static_cast<uint64_t>(num_rows * row_stride) * 2;
  return t;
}

// q, k and v of all layers; each layer takes its own from there, so that a captured step computes what a batch brings.
void Attention::upload_rows(const Batch& batch) {
  std::vector<uint16_t> values;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    for (const AbiKey& row : batch.rows) {
      std::minstd_rand rng(static_cast<uint32_t>((row.seq + 2) * 7919 + row.position * 131 + layer * 31 + 1));
      for (int64_t i = 0; i < columns(); ++i) {
        values.push_back(narrow((static_cast<float>(rng() % 4001) - 2000.0f) / 1000.0f));
      }
      // V is last: an element of each head, and of each token another.
      for (int32_t head = 0; head < config_.num_kv_heads && broken_.count({row.seq, row.position}) != 0; ++head) {
        const int32_t d = (row.position * 13 + head) % config_.head_dim;
        values[values.size() - static_cast<std::size_t>(head * config_.head_dim + d + 1)] =
            head % 2 == 0 ? 0x7fc0 : 0xff80;
      }
    }
  }
  if (pristine_.size() < values.size()) pristine_.resize(values.size());
  put(pristine_, values);
}

void Attention::layers(const mortise_batch& view) {
  const mortise_step step = step_of(view);
  const int64_t rows = view.num_tokens, row_size = int64_t{config_.num_heads} * config_.head_dim;
  auto rope = sized<mortise_rope>();
  rope.cos = cos_.data();
  rope.sin = sin_.data();
  rope.rotary_dim = config_.head_dim;
  const mortise_tensor q = tensor(qkv_.data(), rows, config_.num_heads, columns());
  mortise_tensor k = tensor(qkv_.data() + row_size, rows, config_.num_kv_heads, columns());
  mortise_tensor v =
      tensor(k.data == nullptr ? nullptr : static_cast<uint16_t*>(k.data) + config_.num_kv_heads * config_.head_dim,
             rows, config_.num_kv_heads, columns());
  mortise_error error = make_error();
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    check_cuda(
        cudaMemcpyAsync(qkv_.data(), pristine_.data() + layer * rows * columns(),
                        static_cast<std::size_t>(rows * columns()) * 2, cudaMemcpyDeviceToDevice, device_.stream),
        "rows");
    auto append = sized<mortise_append_args>();
    append.layer = layer;
    append.q = &q;
    append.k = &k;
    append.v = &v;
    append.rope = &rope;
    append.q_norm = append.k_norm = config_.qk_norm ? &norm_weight_ : nullptr;
    append.norm_eps = 1e-5f;
    check(table_->append(attention_, &step, &append, &error), error);
    const mortise_tensor out = tensor(out_.data() + layer * rows * row_size, rows, config_.num_heads, row_size);
    check(table_->run(attention_, &step, layer, &q, &out, &error), error);
  }
}

void Attention::download_rows(const Batch& batch, AbiRows& rows) {
  check_cuda(cudaStreamSynchronize(device_.stream), "step");
  const std::vector<uint16_t> values = out_.values();
  const std::size_t row_size = static_cast<std::size_t>(config_.num_heads * config_.head_dim);
  std::size_t at = 0;
  for (int32_t layer = 0; layer < config_.num_layers; ++layer) {
    for (const AbiKey& row : batch.rows) {
      rows[{row.seq, row.position, layer}].assign(&values[at], &values[at] + row_size);
      at += row_size;
    }
  }
}

void Attention::step(const std::vector<Piece>& pieces, AbiRows& rows) {
  const Batch batch = make_batch(pieces);
  mortise_batch view = upload(batch, false);
  upload_rows(batch);
  out_.resize(batch.rows.size() * static_cast<std::size_t>(config_.num_layers * config_.num_heads * config_.head_dim));
  out_.fill(0xee);
  check_cuda(cudaDeviceSynchronize(), "upload");  // copies from pageable memory and fills may go on when they return
  plan_batch(view);
  layers(view);
  download_rows(batch, rows);
}

void Attention::bucket_step(const std::vector<Piece>& pieces, Bucket how, AbiRows& rows) {
  Batch batch = make_batch(pieces);
  pad(batch);
  mortise_batch view = upload(batch, true);
  upload_rows(batch);
  if (graph_ == nullptr) {
    out_.resize(static_cast<std::size_t>(kBucketRows * config_.num_layers * config_.num_heads * config_.head_dim));
  }
  out_.fill(0xee);
  check_cuda(cudaDeviceSynchronize(), "upload");  // copies from pageable memory and fills may go on when they return
  plan_batch(view);
  if (how == Bucket::kEager) {
    layers(view);
  } else {
    if (graph_ == nullptr) {
      cudaGraph_t graph = nullptr;
      check_cuda(cudaStreamBeginCapture(device_.stream, cudaStreamCaptureModeThreadLocal), "capture");
      layers(view);
      check_cuda(cudaStreamEndCapture(device_.stream, &graph), "capture");
      check_cuda(cudaGraphInstantiate(&graph_, graph, 0), "instantiate");
      check_cuda(cudaGraphDestroy(graph), "graph");
    }
    check_cuda(cudaGraphLaunch(graph_, device_.stream), "replay");
  }
  download_rows(batch, rows);
}

}  // namespace mortise::test
