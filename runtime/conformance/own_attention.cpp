#include "conformance/own_attention.hpp"

#include <utility>

namespace mortise::conformance {

Answer ask_layout(const Part& part, const mortise_model_dims& dims, std::int32_t block_size,
                  mortise_kv_layout& layout) {
  layout = {};
  layout.struct_size = sizeof layout;
  return part.call("kv_layout", [&](mortise_error* error) {
    return part.table<mortise_attention_table>().kv_layout(part.handle<mortise_attention>(), &dims, dims.dtype,
                                                           block_size, &layout, error);
  });
}

OwnAttention::OwnAttention(Subject& subject, AttentionShape shape, DeviceWatch* watch)
    : shape_(std::move(shape)), dims_(shape_.dims()) {
  mortise_query query{};
  query.struct_size = sizeof query;
  const std::string device = subject.device().component().name;
  query.device = device.c_str();
  query.dims = &dims_;
  query.kv_dtype = dims_.dtype;
  query.block_size = shape_.block_size;
  if (const auto reason = subject.component().refusal(query)) {
    throw NotApplicable(fmt::format("it does not serve {}: {}", shape_.text(), *reason));
  }
  const auto probe = subject.make();
  const Answer answer = ask_layout(*probe, dims_, shape_.block_size, layout_);
  if (!answer.ok()) throw NotApplicable(fmt::format("it does not serve {}: {}", shape_.text(), answer.text()));
  kv_ = std::make_unique<DeviceBuffer>(subject.device(), layout_.bytes_per_block * kNumBlocks, std::uint8_t{0});
  part_ = bound_part(subject, watch == nullptr ? subject.device().table<mortise_device_table>() : watch->table());
  scene_.emplace(subject.device(), *part_, shape_, kNumBlocks);
}

OwnAttention::~OwnAttention() {
  scene_.reset();
  part_.reset();
}

std::unique_ptr<Part> OwnAttention::another_on_same_memory(Subject& subject) const {
  return bound_part(subject, subject.device().table<mortise_device_table>());
}

std::unique_ptr<Part> OwnAttention::bound_part(Subject& subject, const mortise_device_table* table) const {
  PartSetup setup = subject.setup();
  setup.device_table = table;
  auto part = subject.make(std::move(setup));
  mortise_kv_layout layout{};
  const Answer answer = ask_layout(*part, dims_, shape_.block_size, layout);
  expect(answer.ok(), "kv_layout fails although it succeeded before: {}", answer.text());
  mortise_attention_bind_args args{};
  args.struct_size = sizeof args;
  args.dims = &dims_;
  args.kv_dtype = shape_.dtype;
  args.block_size = shape_.block_size;
  args.num_blocks = kNumBlocks;
  args.kv = kv_->data();
  args.kv_bytes = kv_->size();
  part->perform("bind", [&](mortise_error* error) {
    return part->table<mortise_attention_table>().bind(part->handle<mortise_attention>(), &args, error);
  });
  mortise_activate_args sizes = usual_sizes();
  sizes.block_size = shape_.block_size;
  sizes.num_blocks = kNumBlocks;
  sizes.max_batched_tokens = 1024;
  const Answer active = part->activate(sizes);
  expect(active.ok(), "activate fails: {}", active.text());
  return part;
}

}  // namespace mortise::conformance
