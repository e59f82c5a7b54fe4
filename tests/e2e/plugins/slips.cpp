// tests/e2e/plugins/slips.cpp: an attention and a scheduler that are right, except for one call out of a given number:
// `run` flips the lowest bit of one number of one row, and `plan` gives its first sequence more tokens than there are.
// A swap with verify_steps is to find it.
#include <vector>

#include "attention/span_cpu/component.hpp"
#include "loader/option_reader.hpp"
#include "mortise/attention.h"
#include "mortise/plugin.hpp"
#include "mortise/scheduler.h"
#include "schedulers/common/planner.hpp"

namespace {

namespace scheduling = mortise::scheduling;
using mortise::span_cpu::kPaged;

struct Slips {
  int every, count = 0;
  bool now() { return ++count % every == 0; }
};

struct Attention {
  Slips slips;
  void* inner = nullptr;

  mortise_attention* paged() const { return static_cast<mortise_attention*>(inner); }
};

Attention& attention(void* instance) {
  return *static_cast<Attention*>(instance);
}

const mortise_attention_table& paged() {
  return *static_cast<const mortise_attention_table*>(kPaged.table);
}

mortise_status create_attention(const mortise_host* host, const mortise_create_args* args, void** instance,
                                mortise_error* error) {
  const mortise::Options options(mortise::known(args));
  auto* made = new Attention{{options.get<int>("every")}};
  mortise_create_args inner = *args;
  const mortise::OptionReader passed_on(nlohmann::json{{"block_size", options.get<int>("block_size")}});
  passed_on.give_to(inner);
  *instance = made;
  return kPaged.create(host, &inner, &made->inner, error);
}

constexpr mortise_attention_table kAttentionTable = {
    sizeof(mortise_attention_table),
    0,
    [](mortise_attention* self, const mortise_model_dims* dims, int32_t dtype, int32_t block_size,
       mortise_kv_layout* layout, mortise_error* error) {
      return paged().kv_layout(attention(self).paged(), dims, dtype, block_size, layout, error);
    },
    [](mortise_attention* self, const mortise_attention_bind_args* args, mortise_error* error) {
      return paged().bind(attention(self).paged(), args, error);
    },
    [](mortise_attention* self, const mortise_step* step, mortise_error* error) {
      return paged().plan(attention(self).paged(), step, error);
    },
    [](mortise_attention* self, const mortise_step* step, const mortise_append_args* args, mortise_error* error) {
      return paged().append(attention(self).paged(), step, args, error);
    },
    [](mortise_attention* self, const mortise_step* step, int32_t layer, const mortise_tensor* q,
       const mortise_tensor* out, mortise_error* error) {
      const mortise_status status = paged().run(attention(self).paged(), step, layer, q, out, error);
      if (attention(self).slips.now()) {
        const int64_t last = (step->batch->num_real_tokens - 1) * out->stride[0] + 3;
        static_cast<unsigned char*>(out->data)[last * (out->dtype & 0xff) / 8] ^= 1;
      }
      return status;
    },
    [](mortise_attention* self, mortise_stream* stream, const int32_t* from, const int32_t* to, int32_t num_blocks,
       mortise_error* error) {
      return paged().copy_blocks(attention(self).paged(), stream, from, to, num_blocks, error);
    }};

constexpr mortise_component kSlippingPaged = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_ATTENTION,
    0,
    MORTISE_CAP_EXACT | MORTISE_CAP_MULTI_QUERY | MORTISE_CAP_SLIDING_WINDOW,
    "slipping_paged",
    "paged, but for one bit in some calls",
    R"({"type": "object", "properties": {
      "block_size": {"title": "tokens of a block", "type": "integer", "default": 16},
      "every": {"title": "calls of run, the last of which is wrong in one bit", "type": "integer", "default": 1000}}})",
    "attention-span256/1",
    &kAttentionTable,
    [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; },
    create_attention,
    [](void* instance) {
      kPaged.destroy(attention(instance).inner);
      delete &attention(instance);
    },
    [](void* instance, const mortise_activate_args* args, mortise_error* error) {
      return kPaged.activate(attention(instance).inner, args, error);
    },
    [](void* instance) { kPaged.deactivate(attention(instance).inner); },
    nullptr};

struct Scheduler {
  Slips slips;
  scheduling::Limits limits;
};

mortise_status plan(mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* out,
                    mortise_error* error) {
  return mortise::guard(error, "plan", [&] {
    auto& scheduler = *reinterpret_cast<Scheduler*>(self);
    const auto seen = mortise::known(view);
    std::vector<scheduling::OrderEntry> order;
    for (int32_t i = 0; i < seen.num_seqs; ++i) order.push_back({i});
    scheduling::Planner planner(seen, scheduler.limits, order);
    planner.plan();
    planner.write(*out);
    if (scheduler.slips.now()) out->num_new_tokens[0] += 100'000;
  });
}

constexpr mortise_scheduler_table kSchedulerTable = {
    sizeof(mortise_scheduler_table), 0,
    [](mortise_scheduler*, const mortise_schedule_events*, mortise_error*) -> mortise_status { return MORTISE_OK; },
    plan};

constexpr mortise_component kSlippingFcfs = {
    sizeof(mortise_component),
    0,
    MORTISE_KIND_SCHEDULER,
    0,
    MORTISE_CAP_EXACT,
    "slipping_fcfs",
    "first come, first served, but for some plans",
    R"({"type": "object", "properties": {
      "max_num_seqs": {"title": "sequences that run at a time", "type": "integer", "default": 16},
      "max_batched_tokens": {"title": "rows of a step", "type": "integer", "default": 256},
      "every": {"title": "plans, the last of which is broken", "type": "integer", "default": 1000}}})",
    nullptr,
    &kSchedulerTable,
    [](const mortise_query*, mortise_error*) -> mortise_status { return MORTISE_OK; },
    [](const mortise_host*, const mortise_create_args* args, void** instance, mortise_error*) -> mortise_status {
      const mortise::Options options(mortise::known(args));
      *instance = new Scheduler{{options.get<int>("every")},
                                {options.get<int32_t>("max_num_seqs"), options.get<int32_t>("max_batched_tokens")}};
      return MORTISE_OK;
    },
    [](void* instance) { delete static_cast<Scheduler*>(instance); },
    nullptr,
    nullptr,
    nullptr};

}  // namespace

MORTISE_PLUGIN("test.slips", "Tests", "1.0.0", "Apache-2.0", &kSlippingPaged, &kSlippingFcfs)
