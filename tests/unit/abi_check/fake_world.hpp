// tests/unit/abi_check/fake_world.hpp: a device in host memory, an attention and a model whose functions a test breaks,
// and a step of them.
#pragma once

#include <array>
#include <cstring>
#include <vector>

#include "fake_parts.hpp"
#include "mortise/ext/graph.h"

namespace mortise::fake {

// What the three parts do. The model runs both layers of the attention and uses the device as `on_forward` says.
struct World {
  std::function<mortise_status(std::uint64_t bytes, void** memory, mortise_error*)> allocate;
  std::function<const char*(std::int32_t)> numerics_id = [](std::int32_t) { return "fake/1"; };
  std::function<std::int32_t()> vocab_slice = [] { return 64; };
  std::function<mortise_status(std::uint64_t* free, std::uint64_t* total)> memory_info = [](auto* free, auto* total) {
    *free = *total = 1000;
    return kOk;
  };
  std::function<mortise_status(mortise_device_info*)> describe = [](mortise_device_info* info) {
    info->host_memory = 1;
    return kOk;
  };
  std::function<mortise_status(const mortise_sample_args*)> sample = [](const mortise_sample_args* args) {
    args->tokens[0] = 1;
    return kOk;
  };
  std::function<mortise_status(const mortise_weight_source*, mortise_weight**)> prepare = [](auto*, auto** weight) {
    *weight = reinterpret_cast<mortise_weight*>(new int);
    return kOk;
  };
  std::function<mortise_status(mortise_graph**)> graph_end = [](mortise_graph** graph) {
    *graph = reinterpret_cast<mortise_graph*>(new int);
    return kOk;
  };
  std::function<void(mortise_kv_layout*)> kv_layout = [](mortise_kv_layout* layout) {
    std::strcpy(layout->layout_id, "fake");
    layout->bytes_per_block = 64;
  };
  std::function<mortise_status(const mortise_step*, mortise_error*)> attention_plan = [](auto*, auto*) { return kOk; };
  std::function<void(const mortise_append_args*)> append = [](auto*) {};
  std::function<void(mortise_model_dims*)> dims = [](mortise_model_dims* to) { *to = fake::dims(); };
  std::function<mortise_status(const mortise_weight_reader*)> load = [](auto*) { return kOk; };
  std::function<mortise_status(const mortise_step*, mortise_tensor*, mortise_error*)> forward;

  World();
};
inline World world;

inline void* aligned_zeros(std::uint64_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t size = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  static auto* const all = new std::vector<void*>;  // so that what a broken test keeps counts as reachable
  return std::memset(all->emplace_back(std::aligned_alloc(kAlignment, size)), 0, size);
}

inline mortise_device_table device_table() {
  mortise_device_table t = stub::device_table();
  t.describe = [](mortise_device*, mortise_device_info* info) { return world.describe(info); };
  t.numerics_id = [](mortise_device*, std::int32_t dtype) { return world.numerics_id(dtype); };
  t.memory_info = [](mortise_device*, std::uint64_t* free, std::uint64_t* total) {
    return world.memory_info(free, total);
  };
  t.allocate = [](mortise_device*, std::uint64_t bytes, void** memory, mortise_error* error) {
    return world.allocate(bytes, memory, error);
  };
  t.host_allocate = t.allocate;
  t.free = [](mortise_device*, void* memory) { std::free(memory); };
  t.host_free = t.free;
  t.vocab_slice = [](mortise_device*) { return world.vocab_slice(); };
  t.prepare_weight = [](mortise_device*, const mortise_weight_source* source, mortise_weight** weight, mortise_error*) {
    return world.prepare(source, weight);
  };
  t.free_weight = [](mortise_device*, mortise_weight* weight) { delete reinterpret_cast<int*>(weight); };
  t.stream_create = [](mortise_device*, mortise_stream** stream, mortise_error*) {
    *stream = reinterpret_cast<mortise_stream*>(new int);
    return kOk;
  };
  t.stream_destroy = [](mortise_device*, mortise_stream* stream) { delete reinterpret_cast<int*>(stream); };
  t.event_create = [](mortise_device*, mortise_event** event, mortise_error*) {
    *event = reinterpret_cast<mortise_event*>(new int);
    return kOk;
  };
  t.event_destroy = [](mortise_device*, mortise_event* event) { delete reinterpret_cast<int*>(event); };
  t.stream_synchronize = [](mortise_device*, mortise_stream*, mortise_error*) { return kOk; };
  t.event_synchronize = [](mortise_device*, mortise_event*, mortise_error*) { return kOk; };
  t.event_record = [](mortise_device*, mortise_event*, mortise_stream*, mortise_error*) { return kOk; };
  t.copy = [](mortise_device*, mortise_stream*, void*, const void*, std::uint64_t, mortise_error*) { return kOk; };
  t.fill = [](mortise_device*, mortise_stream*, void*, std::uint8_t, std::uint64_t, mortise_error*) { return kOk; };
  t.linear = [](mortise_device*, mortise_stream*, const mortise_linear_args*, mortise_error*) { return kOk; };
  t.add = [](mortise_device*, mortise_stream*, const mortise_tensor*, const mortise_tensor*, const mortise_tensor*,
             mortise_error*) { return kOk; };
  t.gather_rows = [](mortise_device*, mortise_stream*, const mortise_tensor*, const std::int32_t*,
                     const mortise_tensor*, mortise_error*) { return kOk; };
  t.activation = [](mortise_device*, mortise_stream*, std::int32_t, const mortise_tensor*, const mortise_tensor*,
                    mortise_error*) { return kOk; };
  t.head_reduce = [](mortise_device*, mortise_stream*, const mortise_head_reduce_args*, mortise_error*) { return kOk; };
  t.sample = [](mortise_device*, mortise_stream*, const mortise_sample_args* args, mortise_error*) {
    return world.sample(args);
  };
  return t;
}

inline mortise_attention_table attention_table() {
  mortise_attention_table t{};
  t.struct_size = sizeof t;
  t.kv_layout = [](mortise_attention*, const mortise_model_dims*, std::int32_t, std::int32_t, mortise_kv_layout* layout,
                   mortise_error*) { return world.kv_layout(layout), kOk; };
  t.bind = [](mortise_attention*, const mortise_attention_bind_args*, mortise_error*) { return kOk; };
  t.plan = [](mortise_attention*, const mortise_step* step, mortise_error* error) {
    return world.attention_plan(step, error);
  };
  t.append = [](mortise_attention*, const mortise_step*, const mortise_append_args* args, mortise_error*) {
    return world.append(args), kOk;
  };
  t.run = [](mortise_attention*, const mortise_step*, std::int32_t, const mortise_tensor*, const mortise_tensor*,
             mortise_error*) { return kOk; };
  t.copy_blocks = [](mortise_attention*, mortise_stream*, const std::int32_t*, const std::int32_t*, std::int32_t,
                     mortise_error*) { return kOk; };
  return t;
}

inline mortise_model_table model_table() {
  mortise_model_table t{};
  t.struct_size = sizeof t;
  t.dims = [](mortise_model*, mortise_model_dims* dims, mortise_error*) { return world.dims(dims), kOk; };
  t.load = [](mortise_model*, const mortise_weight_reader* reader, mortise_error*) { return world.load(reader); };
  t.forward = [](mortise_model*, const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
    return world.forward(step, hidden, error);
  };
  t.head = [](mortise_model*, const mortise_step*, const mortise_tensor*, std::int32_t, std::int32_t,
              const mortise_tensor*, mortise_error*) { return kOk; };
  return t;
}

inline mortise_tensor tensor(void* data, std::vector<std::int64_t> shape, std::int32_t dtype = MORTISE_F32) {
  mortise_tensor made{};
  made.struct_size = sizeof made;
  made.data = data;
  made.dtype = dtype;
  made.ndim = static_cast<std::int32_t>(shape.size());
  std::int64_t stride = 1;
  for (int d = 3; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    made.shape[d] = at < shape.size() ? shape[at] : 1;
    made.stride[d] = stride;
    stride *= made.shape[d];
  }
  made.bytes = static_cast<std::uint64_t>(stride) * static_cast<std::uint64_t>(dtype & 0xff) / 8;
  return made;
}

// The attention of one layer, as a model calls it.
inline mortise_status append(const mortise_step* step, std::int32_t layer, mortise_error* error,
                             std::int64_t rows = 3) {
  static float numbers[64];
  const mortise_tensor q = tensor(numbers, {rows, 2, 4}), kv = tensor(numbers, {rows, 1, 4});
  mortise_append_args args{};
  args.struct_size = sizeof args;
  args.layer = layer;
  args.q = &q;
  args.k = args.v = &kv;
  return step->attention_table->append(step->attention, step, &args, error);
}
inline mortise_status run(const mortise_step* step, std::int32_t layer, mortise_error* error) {
  static float numbers[64];
  const mortise_tensor q = tensor(numbers, {3, 2, 4});
  return step->attention_table->run(step->attention, step, layer, &q, &q, error);
}
inline mortise_status sound_forward(const mortise_step* step, mortise_tensor* hidden, mortise_error* error) {
  static float numbers[64];
  for (std::int32_t layer = 0; layer < dims().num_layers; ++layer) {
    mortise_status status = append(step, layer, error);
    if (status == MORTISE_OK) status = run(step, layer, error);
    if (status != MORTISE_OK) return status;
  }
  *hidden = tensor(numbers, {step->batch->num_tokens, dims().hidden_size});
  return kOk;
}

inline World::World() {
  allocate = [](std::uint64_t bytes, void** memory, mortise_error*) {
    *memory = aligned_zeros(bytes);
    return kOk;
  };
  forward = sound_forward;
}

// Checked parts, and a batch of two runs: rows 0 and 1 of sequence 7 at positions 3 and 4, row 2 of sequence 8.
class CheckedStep : public testing::Test {
 public:
  CheckedStep() {
    life = Life();
    world = World();
    batch.struct_size = sizeof batch;
    batch.num_seqs = batch.num_real_seqs = 2;
    batch.num_tokens = batch.num_real_tokens = 3;
    batch.num_logit_rows = 2;
    batch.block_size = sizes().block_size;
    batch.max_blocks = 2;
    batch.max_query_len = 2;
    batch.max_seq_len = 5;
    batch.seq_ids = ids.data();
    batch.token_ids = batch.device_token_ids = tokens.data();
    batch.positions = batch.device_positions = positions.data();
    batch.cu_seqlens_q = batch.device_cu_seqlens_q = cu.data();
    batch.seq_lens = batch.device_seq_lens = lengths.data();
    batch.block_table = batch.device_block_table = blocks.data();
    batch.slot_mapping = batch.device_slot_mapping = slots.data();
    batch.logit_rows = batch.device_logit_rows = logit_rows.data();
    step.struct_size = sizeof step;
    step.batch = &batch;
    step.device = device.handle<mortise_device>();
    step.device_table = device.table<mortise_device_table>();
    step.attention = attention.handle<mortise_attention>();
    step.attention_table = attention.table<mortise_attention_table>();
  }
  static const Component& device_component() {
    static const mortise_device_table table = device_table();
    static const Component& component = checked(PartKind::kDevice, &table);
    return component;
  }
  static const Component& attention_component() {
    static const mortise_attention_table table = attention_table();
    static const Component& component = checked(PartKind::kAttention, &table);
    return component;
  }
  static const Component& model_component() {
    static const mortise_model_table table = model_table();
    static const Component& component = checked(PartKind::kModel, &table);
    return component;
  }

  std::string bind() {
    mortise_attention_bind_args args{};
    args.struct_size = sizeof args;
    args.dims = &target;
    args.kv_dtype = MORTISE_F32;
    args.block_size = sizes().block_size;
    args.num_blocks = sizes().num_blocks;
    args.kv = kv.data();
    args.kv_bytes = kv.size();
    return failure_of(attention, "bind",
                      [&](mortise_error* error) { return step.attention_table->bind(step.attention, &args, error); });
  }
  std::string dims_of_model() {
    mortise_model_dims found{};
    found.struct_size = sizeof found;
    return failure_of(model, "dims",
                      [&](mortise_error* error) { return models().dims(model_handle(), &found, error); });
  }
  std::string load() {
    mortise_weight_reader reader{};
    reader.struct_size = sizeof reader;
    reader.get = [](void*, mortise_string_view, mortise_tensor*) -> mortise_status { return MORTISE_NOT_FOUND; };
    return failure_of(model, "load",
                      [&](mortise_error* error) { return models().load(model_handle(), &reader, error); });
  }
  // All parts are active.
  void begin() {
    ASSERT_EQ(bind() + dims_of_model() + load(), "");
    device.activate(sizes());
    attention.activate(sizes());
    model.activate(sizes());
  }
  std::string plan() {
    return failure_of(attention, "plan",
                      [&](mortise_error* error) { return step.attention_table->plan(step.attention, &step, error); });
  }
  std::string forward() {
    mortise_tensor hidden{};
    hidden.struct_size = sizeof hidden;
    return failure_of(model, "forward",
                      [&](mortise_error* error) { return models().forward(model_handle(), &step, &hidden, error); });
  }
  const mortise_model_table& models() const { return *model.table<mortise_model_table>(); }
  mortise_model* model_handle() const { return model.handle<mortise_model>(); }
  const mortise_device_table& devices() const { return *step.device_table; }
  // A call of the device by the host.
  template <typename Body>
  std::string on_device(Body&& body) {
    return failure_of(device, "call", body);
  }

  const mortise_model_dims target = dims();
  std::vector<char> kv = std::vector<char>(64 * 32);
  PartInstance device = instance(device_component()), attention = instance(attention_component()),
               model = instance(model_component());
  std::array<std::uint64_t, 2> ids = {7, 8};
  std::array<std::int32_t, 3> tokens = {1, 2, 3}, positions = {3, 4, 0}, cu = {0, 2, 3};
  std::array<std::int32_t, 2> lengths = {5, 1}, logit_rows = {1, 2};
  std::array<std::int32_t, 4> blocks = {4, 6, 9, 0};
  std::array<std::int64_t, 3> slots = {19, 24, 36};
  mortise_batch batch{};
  mortise_step step{};
};

}  // namespace mortise::fake
