// tests/e2e/plugins/flip/attention.cpp: paged, but that one bit of what it computes is wrong: at one position of each
// sequence, in one layer, in one element; with `only`, only where several sequences are in the batch, or in the rows of
// drafts. It claims the numerics id of paged. Built once around paged of the CPU and once around that of CUDA, whose
// steps it does not let be captured.
#include <string>
#include <string_view>

#include "loader/option_reader.hpp"
#include "mortise/attention.h"
#include "mortise/model.h"
#include "mortise/plugin.hpp"

// The plugin.cpp of a paged attention is compiled in, with its entry renamed to this.
MORTISE_EXTERN_C const mortise_module* mortise_paged_entry();

namespace {

const mortise_component& paged_component() {
  return *mortise_paged_entry()->components[0];
}
const mortise_attention_table& paged() {
  return *static_cast<const mortise_attention_table*>(paged_component().table);
}

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "block_size": {"title": "tokens of a block", "type": "integer", "default": 16},
    "layer": {"title": "in which layer", "type": "integer", "default": 0},
    "position": {"title": "in which row of a sequence", "type": "integer", "default": 0},
    "element": {"title": "in which element of that row", "type": "integer", "default": 0},
    "only": {"title": "beside other sequences; or in drafts, from that position on", "enum": ["", "crowd", "drafts"], "default": ""}
  }
})";

struct Instance {
  int layer, position, element;
  std::string only;
  void* inner = nullptr;

  mortise_attention* attention() const { return static_cast<mortise_attention*>(inner); }
};

Instance& of(void* instance) {
  return *static_cast<Instance*>(instance);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const mortise::Options options(mortise::known(args));
  auto* made = new Instance{options.get<int>("layer"), options.get<int>("position"), options.get<int>("element"),
                            options.get<std::string>("only")};
  const mortise::OptionReader passed_on(nlohmann::json{{"block_size", options.get<int>("block_size")}});
  mortise_create_args inner = *args;
  passed_on.give_to(inner);
  *instance = made;
  return paged_component().create(host, &inner, &made->inner, error);
}
void destroy(void* instance) {
  paged_component().destroy(of(instance).inner);
  delete &of(instance);
}
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return paged_component().activate(of(instance).inner, args, error);
}
void deactivate(void* instance) {
  paged_component().deactivate(of(instance).inner);
}

mortise_status kv_layout(mortise_attention* self, const mortise_model_dims* dims, int32_t dtype, int32_t block_size,
                         mortise_kv_layout* layout, mortise_error* error) {
  return paged().kv_layout(of(self).attention(), dims, dtype, block_size, layout, error);
}
mortise_status bind(mortise_attention* self, const mortise_attention_bind_args* args, mortise_error* error) {
  return paged().bind(of(self).attention(), args, error);
}
mortise_status plan(mortise_attention* self, const mortise_step* step, mortise_error* error) {
  return paged().plan(of(self).attention(), step, error);
}
mortise_status append(mortise_attention* self, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return paged().append(of(self).attention(), step, args, error);
}
mortise_status flip_a_bit(const mortise_step& step, void* at, mortise_error* error) {
  uint8_t byte = 0;
  const auto copy = [&](void* to, const void* from) {
    return step.device_table->copy(step.device, step.stream, to, from, 1, error);
  };
  if (copy(&byte, at) != MORTISE_OK) return MORTISE_INTERNAL;
  byte ^= 1;
  return copy(at, &byte);
}
mortise_status run(mortise_attention* self, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  const Instance& flip = of(self);
  const mortise_status status = paged().run(flip.attention(), step, layer, q, out, error);
  const mortise_batch& batch = *step->batch;
  if (status != MORTISE_OK || layer != flip.layer || (flip.only == "crowd" && batch.num_real_seqs < 2)) return status;
  const int64_t bytes = (out->dtype & 0xff) / 8;
  const int64_t head = flip.element / out->shape[2], column = flip.element % out->shape[2];
  for (int32_t sequence = 0; sequence < batch.num_real_seqs; ++sequence) {
    const int32_t first = batch.cu_seqlens_q[sequence];
    for (int32_t row = first; row < batch.cu_seqlens_q[sequence + 1]; ++row) {
      const bool is_draft = row > first && batch.positions[first] > 0;
      const bool wrong = flip.only == "drafts" ? is_draft && batch.positions[row] >= flip.position
                                               : batch.positions[row] == flip.position;
      if (!wrong) continue;
      void* at = static_cast<uint8_t*>(out->data) + (row * out->stride[0] + head * out->stride[1] + column) * bytes;
      if (flip_a_bit(*step, at, error) != MORTISE_OK) return MORTISE_INTERNAL;
    }
  }
  return status;
}
mortise_status copy_blocks(mortise_attention* self, mortise_stream* stream, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  return paged().copy_blocks(of(self).attention(), stream, from, to, num_blocks, error);
}

constexpr mortise_attention_table kTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks};

const mortise_component kFlip = [] {
  mortise_component flip = paged_component();
  flip.capabilities &= ~(MORTISE_CAP_CAPTURE | MORTISE_CAP_CASCADE);
  flip.name = "flip_attention";
  flip.summary = "paged with a wrong bit";
  flip.options_schema = kSchema;
  flip.table = &kTable;
  flip.create = create;
  flip.destroy = destroy;
  flip.activate = activate;
  flip.deactivate = deactivate;
  flip.get_ext = nullptr;
  return flip;
}();

}  // namespace

MORTISE_PLUGIN("test.flip_attention", "Tests", "1.0.0", "Apache-2.0", &kFlip)
