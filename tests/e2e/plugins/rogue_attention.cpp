// tests/e2e/plugins/rogue_attention.cpp: paged, but that `plan` does what no plugin may do, and holds the host to what
// batch.h says of sequence ids; paged without its capability for sliding windows; and paged that gives other
// tokens.
#include <cstring>
#include <set>

#include "attention/span_cpu/component.hpp"
#include "loader/option_reader.hpp"
#include "mortise/attention.h"
#include "rogue.hpp"

namespace {

using mortise::span_cpu::kPaged;

const mortise_attention_table& paged() {
  return *static_cast<const mortise_attention_table*>(kPaged.table);
}

struct Instance {
  rogue::Misdeed misdeed;
  const mortise_host* host;
  void* inner = nullptr;
  std::set<uint64_t> seen = {}, ended = {};

  mortise_attention* attention() const { return static_cast<mortise_attention*>(inner); }
};

Instance& of(void* instance) {
  return *static_cast<Instance*>(instance);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  auto* made = new Instance{rogue::Misdeed(mortise::Options(mortise::known(args))), host};
  mortise_create_args inner = *args;
  const mortise::OptionReader passed_on(nlohmann::json{{"block_size", 16}});
  passed_on.give_to(inner);
  *instance = made;
  return kPaged.create(host, &inner, &made->inner, error);
}
void end_quietly(void* instance) {
  kPaged.destroy(of(instance).inner);
  delete &of(instance);
}
void destroy(void* instance) {
  Instance& self = of(instance);
  const std::string text =
      std::to_string(self.seen.size()) + " sequences, " + std::to_string(self.ended.size()) + " ended";
  self.host->log(self.host, MORTISE_LOG_WARNING, mortise::view(text));
  end_quietly(instance);
}
mortise_status activate(void* instance, const mortise_activate_args* args, mortise_error* error) {
  return kPaged.activate(of(instance).inner, args, error);
}
void deactivate(void* instance) {
  kPaged.deactivate(of(instance).inner);
}

mortise_status kv_layout(mortise_attention* self, const mortise_model_dims* dims, int32_t dtype, int32_t block_size,
                         mortise_kv_layout* layout, mortise_error* error) {
  return paged().kv_layout(of(self).attention(), dims, dtype, block_size, layout, error);
}
mortise_status bind(mortise_attention* self, const mortise_attention_bind_args* args, mortise_error* error) {
  return paged().bind(of(self).attention(), args, error);
}
mortise_status plan(mortise_attention* self, const mortise_step* step, mortise_error* error) {
  Instance& instance = of(self);
  const mortise_batch& batch = *step->batch;
  instance.ended.insert(batch.ended_ids, batch.ended_ids + batch.num_ended);
  for (int32_t i = 0; i < batch.num_real_seqs; ++i) {
    instance.seen.insert(batch.seq_ids[i]);
    if (instance.ended.contains(batch.seq_ids[i])) {
      return mortise::set_error(error, MORTISE_INTERNAL, "plan", "an id was used again after it had ended");
    }
  }
  const mortise_status status = instance.misdeed.commit("plan", error);
  return status != MORTISE_OK ? status : paged().plan(instance.attention(), step, error);
}
mortise_status append(mortise_attention* self, const mortise_step* step, const mortise_append_args* args,
                      mortise_error* error) {
  return paged().append(of(self).attention(), step, args, error);
}
mortise_status run(mortise_attention* self, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  const mortise_status status = paged().run(of(self).attention(), step, layer, q, out, error);
  if (status != MORTISE_OK) return status;
  const mortise_status said = of(self).misdeed.commit("run", error);
  if (of(self).misdeed.spoils()) static_cast<unsigned char*>(out->data)[0] ^= 1;  // the lowest bit of one number
  return said;
}
mortise_status copy_blocks(mortise_attention* self, mortise_stream* stream, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  return paged().copy_blocks(of(self).attention(), stream, from, to, num_blocks, error);
}

constexpr mortise_attention_table kTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, run, copy_blocks};

// Forgets all but the first layer's result: other tokens than paged's, under its numerics id.
mortise_status forget(mortise_attention* self, const mortise_step* step, int32_t layer, const mortise_tensor* q,
                      const mortise_tensor* out, mortise_error* error) {
  const mortise_status status = paged().run(of(self).attention(), step, layer, q, out, error);
  if (layer > 0) std::memset(out->data, 0, out->bytes);
  return status;
}

constexpr mortise_attention_table kForgetfulTable = {
    sizeof(mortise_attention_table), 0, kv_layout, bind, plan, append, forget, copy_blocks};

constexpr mortise_component component(const char* name, uint64_t capabilities,
                                      const mortise_attention_table* table = &kTable, void (*end)(void*) = destroy) {
  return {sizeof(mortise_component),
          0,
          MORTISE_KIND_ATTENTION,
          0,
          capabilities,
          name,
          "paged, until it does what no plugin may do",
          rogue::kSchema,
          "attention-span256/1",
          table,
          [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; },
          create,
          end,
          activate,
          deactivate,
          nullptr};
}

constexpr mortise_component kRogue =
    component("rogue_attention", MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW);
constexpr mortise_component kWindowless = component("windowless", MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY);
constexpr mortise_component kForgetful =
    component("forgetful", MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW, &kForgetfulTable,
              end_quietly);

}  // namespace

MORTISE_PLUGIN("test.rogue_attention", "Tests", "1.0.0", "Apache-2.0", &kRogue, &kWindowless, &kForgetful)
