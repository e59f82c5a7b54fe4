// runtime/conformance/attention_output_cases.cpp: what an attention computes, for all shapes of models. Outputs are
// compared with the scalar reference of mortise/numerics.h where the numerics id is the one that it specifies, and with
// attention in double elsewhere.
#include <cstring>

#include "conformance/attention_draws.hpp"
#include "conformance/own_attention.hpp"

namespace mortise::conformance {
namespace {

// Checks the outputs of a prefill of `count` tokens in a model of this shape.
void prefill_is_right(Subject& subject, const AttentionShape& shape, std::int32_t count) {
  OwnAttention own(subject, shape);
  const std::size_t sequence = own.scene().add(draw_tokens(subject, count));
  expect_right(subject, own.scene(), sequence, own.scene().prefill(sequence));
  own.expect_guards();
}

void layouts_are_told(Subject& subject) {
  const auto part = subject.make();
  const auto ask = [&](const AttentionShape& shape) {
    const mortise_model_dims dims = shape.dims();
    mortise_kv_layout layout{};
    const Answer answer = ask_layout(*part, dims, shape.block_size, layout);
    expect(std::memchr(layout.layout_id, '\0', sizeof layout.layout_id) != nullptr, "layout_id is not NUL-terminated");
    expect(layout.struct_size == sizeof layout, "kv_layout changes struct_size");
    if (!answer.ok()) return std::pair<std::string, std::uint64_t>();
    expect(layout.layout_id[0] != '\0', "layout_id is empty");
    expect(layout.bytes_per_block > 0, "bytes_per_block is 0");
    return std::pair(std::string(layout.layout_id), layout.bytes_per_block);
  };
  const AttentionShape shape;
  const auto first = ask(shape);
  if (first.second == 0) throw NotApplicable(fmt::format("it does not serve {}", shape.text()));
  expect(ask(shape) == first, "kv_layout gives different answers to the same question");
  AttentionShape larger = shape, deeper = shape, wider = shape, full = shape;
  larger.block_size = 32;
  deeper.num_layers = 3;
  wider.num_kv_heads = 4;
  full.dtype = MORTISE_F32;
  for (const AttentionShape& other : {larger, deeper, wider, full}) {
    expect(ask(other).first != first.first, "the layouts of {} ({} layers) and {} ({} layers) have one id, '{}'",
           shape.text(), shape.num_layers, other.text(), other.num_layers, first.first);
  }
}

void one_token(Subject& subject) {
  prefill_is_right(subject, {}, 1);
}

void one_span(Subject& subject) {
  for (const std::int32_t count : {15, 16, 17, 100}) prefill_is_right(subject, {}, count);
}

void several_spans(Subject& subject) {
  for (const std::int32_t count : {256, 257, 600}) prefill_is_right(subject, {}, count);
}

void full_precision(Subject& subject) {
  AttentionShape shape;
  shape.dtype = MORTISE_F32;
  prefill_is_right(subject, shape, 300);
}

void grouped_heads(Subject& subject) {
  int num_served = 0;
  std::string why;
  for (const auto& [heads, kv_heads] : {std::pair(4, 4), std::pair(8, 1), std::pair(6, 2)}) {
    AttentionShape shape;
    shape.num_heads = heads;
    shape.num_kv_heads = kv_heads;
    try {
      prefill_is_right(subject, shape, 40);
      ++num_served;
    } catch (const NotApplicable& refusal) {
      why = refusal.what();
    }
  }
  if (num_served == 0) throw NotApplicable(why);
}

void head_sizes(Subject& subject) {
  int num_served = 0;
  std::string why;
  for (const std::int32_t head_dim : {32, 64, 80, 96, 128, 192, 256}) {
    AttentionShape shape;
    shape.head_dim = shape.rotary_dim = head_dim;
    try {
      prefill_is_right(subject, shape, 40);
      ++num_served;
    } catch (const NotApplicable& refusal) {
      why = refusal.what();
    }
  }
  if (num_served == 0) throw NotApplicable(why);
}

void rotary_embeddings(Subject& subject) {
  AttentionShape shape;
  shape.rotary_dim = 0;
  prefill_is_right(subject, shape, 20);
  shape.rotary_dim = 32;
  prefill_is_right(subject, shape, 20);
  shape.interleaved = true;
  prefill_is_right(subject, shape, 20);
}

void norms_of_heads(Subject& subject) {
  AttentionShape shape;
  shape.has_norms = true;
  prefill_is_right(subject, shape, 40);
}

void sliding_windows(Subject& subject) {
  require_capability(subject, MORTISE_CAP_SLIDING_WINDOW, "MORTISE_CAP_SLIDING_WINDOW");
  for (const std::int32_t window : {1, 16, 40, 300}) {
    AttentionShape shape;
    shape.windows = {window, 0};
    OwnAttention own(subject, shape);
    const std::size_t sequence = own.scene().add(draw_tokens(subject, 350));
    expect_right(subject, own.scene(), sequence, own.scene().prefill(sequence));
  }
}

void layers_are_apart(Subject& subject) {
  AttentionShape deep;
  deep.num_layers = 5;
  OwnAttention own(subject, deep);
  const std::size_t sequence = own.scene().add(draw_tokens(subject, 60));
  expect_right(subject, own.scene(), sequence, own.scene().prefill(sequence));
  expect_right(subject, own.scene(), sequence, own.scene().step({{sequence, 40, 20}}));
}

void bad_bindings_are_refused(Subject& subject) {
  const AttentionShape shape;
  const mortise_model_dims dims = shape.dims();
  const auto part = subject.make();
  mortise_kv_layout layout{};
  if (!ask_layout(*part, dims, shape.block_size, layout).ok()) throw NotApplicable("it does not serve " + shape.text());
  const DeviceBuffer kv(subject.device(), layout.bytes_per_block * 4);
  mortise_attention_bind_args args{};
  args.struct_size = sizeof args;
  args.dims = &dims;
  args.kv_dtype = shape.dtype;
  args.block_size = shape.block_size;
  args.num_blocks = 5;  // while the memory has room for four
  args.kv = kv.data();
  args.kv_bytes = kv.size();
  const Answer answer = part->call("bind", [&](mortise_error* error) {
    return part->table<mortise_attention_table>().bind(part->handle<mortise_attention>(), &args, error);
  });
  expect(!answer.ok(), "bind accepts memory that is smaller than num_blocks * bytes_per_block");
}

constexpr Case kAttentionOutputCases[] = {
    {"attention.layout",
     "kv_layout gives a stable id, a different id for each different layout, and the bytes of a block.", kOfAttention,
     layouts_are_told},
    {"attention.bad_bind", "bind refuses memory that does not hold the blocks.", kOfAttention,
     bad_bindings_are_refused},
    {"attention.one_token", "A single token attends to itself.", kOfAttention, one_token, true},
    {"attention.one_span", "A prompt of up to 256 tokens gets the outputs of its numerics id.", kOfAttention, one_span,
     true},
    {"attention.several_spans", "Prompts at and beyond the border of a span get the outputs of their numerics id.",
     kOfAttention, several_spans, true},
    {"attention.f32", "A model in f32 gets the outputs of its numerics id.", kOfAttention, full_precision, true},
    {"attention.grouped_heads", "Several query heads may share a KV head.", kOfAttention, grouped_heads, true},
    {"attention.head_sizes", "Every head size that the attention accepts is computed correctly.", kOfAttention,
     head_sizes, true},
    {"attention.rope", "append applies whole, partial and interleaved rotary embeddings, or none.", kOfAttention,
     rotary_embeddings, true},
    {"attention.norms", "append norms the heads of q and k before it rotates them.", kOfAttention, norms_of_heads,
     true},
    {"attention.windows", "A layer with a sliding window sees that many keys.", kOfAttention, sliding_windows, true},
    {"attention.layers", "The layers of a deeper model have KV of their own.", kOfAttention, layers_are_apart, true},
};

}  // namespace

std::span<const Case> attention_output_cases() {
  return kAttentionOutputCases;
}

}  // namespace mortise::conformance
