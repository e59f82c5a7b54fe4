// What paged attention refuses, and with which words; what it holds after an error; ids of layouts.
// Covers: plugins/attention/span_cpu/{attention,component}
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixture.hpp"
#include "loader/option_reader.hpp"

namespace mortise::test {
namespace {

using testing::HasSubstr;

mortise_query query(const mortise_model_dims* dims = nullptr) {
  auto q = sized<mortise_query>();
  q.device = "cpu";
  q.dims = dims;
  return q;
}

mortise_model_dims dims() {
  auto d = sized<mortise_model_dims>();
  d.num_layers = 2;
  d.num_heads = 8;
  d.num_kv_heads = 2;
  d.head_dim = 64;
  d.dtype = MORTISE_BF16;
  d.attention_scale = 0.125f;
  return d;
}

std::string refusal(const mortise_query& q) {
  mortise_error error = make_error();
  return span_cpu::kPaged.supports(&q, &error) == MORTISE_OK ? "" : error.message;
}

TEST(PagedContract, SupportsWhatIsNotKnownYet) {
  auto unknown = sized<mortise_query>();
  EXPECT_EQ(refusal(unknown), "");
  const mortise_model_dims d = dims();
  mortise_query q = query(&d);
  q.kv_dtype = MORTISE_BF16;
  q.block_size = 32;
  EXPECT_EQ(refusal(q), "");
  q.kv_dtype = MORTISE_I8;
  EXPECT_EQ(refusal(q), "");
}

TEST(PagedContract, RefusalsNameTheReason) {
  mortise_model_dims d = dims();
  mortise_query q = query(&d);
  q.device = "cuda";
  EXPECT_THAT(refusal(q), HasSubstr("this file is for the device cpu, not for cuda"));
  q = query(&d);
  q.block_size = 24;
  EXPECT_THAT(refusal(q), HasSubstr("block_size is 24"));
  q = query(&d);
  q.kv_dtype = MORTISE_F16;
  EXPECT_THAT(refusal(q), HasSubstr("kv_cache.dtype code " + std::to_string(MORTISE_F16) +
                                    " is not supported; use \"auto\", \"int8\" or \"fp8\""));
  q.kv_dtype = MORTISE_F32;
  EXPECT_THAT(refusal(q),
              HasSubstr("differs from the type that the model computes in; use \"auto\", \"int8\" or \"fp8\""));
  q = query(&d);
  d.head_dim = 100;
  EXPECT_THAT(refusal(q), HasSubstr("head_dim 100"));
  d.head_dim = 264;
  EXPECT_THAT(refusal(q), HasSubstr("head_dim 264"));
  d = dims();
  d.num_heads = 7;
  EXPECT_THAT(refusal(q), HasSubstr("7 query heads"));
  d = dims();
  d.dtype = MORTISE_F16;
  EXPECT_THAT(refusal(q), HasSubstr("the model computes in dtype code " + std::to_string(MORTISE_F16)));
}

mortise_kv_layout layout_of(mortise_model_dims d, int32_t kv_dtype, int32_t block_size) {
  Attention attention{Config{}};
  auto layout = sized<mortise_kv_layout>();
  mortise_error error = make_error();
  check(attention.table().kv_layout(attention.instance(), &d, kv_dtype, block_size, &layout, &error), error);
  return layout;
}
std::string layout_id(mortise_model_dims d, int32_t block_size) {
  return layout_of(d, d.dtype, block_size).layout_id;
}

TEST(PagedContract, LayoutIdsDifferExactlyWhenTheMemoryDoes) {
  const std::string id = layout_id(dims(), 16);
  mortise_model_dims d = dims();
  d.num_heads = 4;  // not part of the cache
  d.hidden_size = 9;
  EXPECT_EQ(layout_id(d, 16), id);
  EXPECT_NE(layout_id(dims(), 32), id);
  for (auto field :
       {&mortise_model_dims::num_layers, &mortise_model_dims::num_kv_heads, &mortise_model_dims::head_dim}) {
    d = dims();
    d.*field *= 2;
    EXPECT_NE(layout_id(d, 16), id);
  }
  d = dims();
  d.dtype = MORTISE_F32;
  EXPECT_NE(layout_id(d, 16), id);
  const std::string int8 = layout_of(d, MORTISE_I8, 16).layout_id;
  EXPECT_NE(int8, id);
  EXPECT_NE(int8, layout_id(d, 16));
  EXPECT_EQ(int8, layout_of(dims(), MORTISE_I8, 16).layout_id);
}

TEST(PagedContract, AnInt8BlockIsAByteANumberAndTwoScalesATokenAndHead) {
  const mortise_model_dims d = dims();
  const uint64_t tokens = 2 * 2 * 16;  // layers, KV heads, block_size
  EXPECT_EQ(layout_of(d, MORTISE_BF16, 16).bytes_per_block, tokens * 2 * 64 * 2);
  EXPECT_EQ(layout_of(d, MORTISE_I8, 16).bytes_per_block, tokens * (2 * 64 + 2 * 4));
}

TEST(PagedContract, BindNeedsTheModelsType) {
  Attention attention{Config{}};
  mortise_model_dims d = dims();
  d.dtype = 0;
  std::vector<unsigned char> memory(1 << 20);
  auto args = sized<mortise_attention_bind_args>();
  args.dims = &d;
  args.kv_dtype = MORTISE_I8;
  args.block_size = 16;
  args.num_blocks = 1;
  args.kv = memory.data();
  args.kv_bytes = memory.size();
  mortise_error error = make_error();
  EXPECT_EQ(attention.table().bind(attention.instance(), &args, &error), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("the model's dtype must be given"));
}

TEST(PagedContract, CreateNeedsADeviceWithThreads) {
  auto table = sized<mortise_device_table>();
  mortise_device device = {1, "portable"};
  auto args = sized<mortise_create_args>();
  const OptionReader options(nlohmann::json::object());
  options.give_to(args);
  args.device = &device;
  args.device_table = &table;
  void* instance = nullptr;
  mortise_error error = make_error();
  EXPECT_EQ(span_cpu::kPaged.create(host(), &args, &instance, &error), MORTISE_FAILED_PRECONDITION);
  EXPECT_THAT(error.message,
              HasSubstr(std::string("the device does not offer ") + MORTISE_EXT_PARALLEL + "; use the cpu"));
  device.isa = "sse9";
  args.device_table = device_table();
  EXPECT_EQ(span_cpu::kPaged.create(host(), &args, &instance, &error), MORTISE_FAILED_PRECONDITION);
  EXPECT_THAT(error.message, HasSubstr("sse9"));
}

// A batch of one row at position 20 in blocks 3 and 4.
struct SmallBatch {
  SmallBatch() {
    view = sized<mortise_batch>();
    view.step_id = 1;
    view.num_seqs = view.num_tokens = view.num_real_seqs = view.num_real_tokens = 1;
    view.block_size = 16;
    view.max_blocks = 2;
    view.positions = view.device_positions = &position;
    view.cu_seqlens_q = view.device_cu_seqlens_q = cu_seqlens_q;
    view.seq_lens = view.device_seq_lens = &seq_len;
    view.block_table = view.device_block_table = blocks;
    view.slot_mapping = view.device_slot_mapping = &slot;
  }
  int32_t position = 20, seq_len = 21, cu_seqlens_q[2] = {0, 1}, blocks[2] = {3, 4};
  int64_t slot = 4 * 16 + 4;
  mortise_batch view;
};

TEST(PagedContract, PlanRefusesABatchThatContradictsItself) {
  Attention attention{Config{}};
  const auto message = [&](auto change) {
    SmallBatch b;
    change(b);
    mortise_error error = make_error();
    return attention.plan(b.view, &error) == MORTISE_INVALID_ARGUMENT ? std::string(error.message) : std::string();
  };
  EXPECT_EQ(message([](SmallBatch&) {}), "");
  EXPECT_THAT(message([](SmallBatch& b) { b.view.block_size = 32; }), HasSubstr("block_size 32"));
  EXPECT_THAT(message([](SmallBatch& b) { b.blocks[1] = 256; }), HasSubstr("block 256"));
  EXPECT_THAT(message([](SmallBatch& b) { b.blocks[0] = -1; }), HasSubstr("block -1"));
  EXPECT_THAT(message([](SmallBatch& b) { b.seq_len = 33; }), HasSubstr("block_table"));
  EXPECT_THAT(message([](SmallBatch& b) { b.position = 19; }), HasSubstr("positions"));
  EXPECT_THAT(message([](SmallBatch& b) { b.slot = 7; }), HasSubstr("slot_mapping"));
  EXPECT_THAT(message([](SmallBatch& b) { b.cu_seqlens_q[1] = 2; }), HasSubstr("cu_seqlens_q"));
}

TEST(PagedContract, RunRefusesWrongShapesAndStepsThatWereNotPlanned) {
  Attention attention{Config{}};
  SmallBatch b;
  auto step = sized<mortise_step>();
  step.batch = &b.view;
  std::vector<uint16_t> memory(4 * 64);
  mortise_tensor q = make_tensor(memory.data(), MORTISE_BF16, 1, 4);
  q.ndim = 3;
  q.shape[2] = q.stride[1] = 64;
  q.stride[0] = 256;
  q.bytes = memory.size() * 2;
  const auto status = [&](int32_t layer, std::string* message) {
    mortise_error error = make_error();
    const mortise_status s = attention.table().run(attention.instance(), &step, layer, &q, &q, &error);
    *message = error.message;
    return s;
  };
  std::string message;
  EXPECT_EQ(status(0, &message), MORTISE_FAILED_PRECONDITION);
  mortise_error error = make_error();
  ASSERT_EQ(attention.plan(b.view, &error), MORTISE_OK) << error.message;
  EXPECT_EQ(status(0, &message), MORTISE_OK) << message;
  EXPECT_EQ(status(1, &message), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("layer 1"));
  q.shape[1] = 5;
  EXPECT_EQ(status(0, &message), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("[1, 4, 64]"));
  q.shape[1] = 4;
  q.bytes = 511;
  EXPECT_EQ(status(0, &message), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(message, HasSubstr("511 bytes"));
  q.bytes = 512;
  q.dtype = MORTISE_F32;
  EXPECT_EQ(status(0, &message), MORTISE_INVALID_ARGUMENT);
  q.dtype = MORTISE_BF16;
  EXPECT_EQ(status(0, &message), MORTISE_OK) << message;  // the errors changed nothing
}

TEST(PagedContract, AllHostMemoryIsGivenBack) {
  {
    Config config;
    config.num_kv_heads = 1;
    config.num_threads = 3;
    config.head_dim = 8;
    Attention attention(config);
    Rows rows;
    attention.step({{0, 2000}}, rows);
    attention.step({{0, 1}}, rows);
    EXPECT_GT(host_bytes(), 0);
  }
  EXPECT_EQ(host_bytes(), 0);
}

}  // namespace
}  // namespace mortise::test
