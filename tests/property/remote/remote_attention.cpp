// The paged attention of the CPU, each call of which waits in the device's queue. A replayed call belongs to the step
// that was planned last, so the instance keeps that step's batch.
#include <memory>
#include <vector>

#include "mortise/attention.h"
#include "mortise/plugin.hpp"
#include "queue.hpp"

MORTISE_EXTERN_C const mortise_module* mortise_paged_entry();

namespace mortise::test {
namespace {

const mortise_component& paged_component() {
  return *mortise_paged_entry()->components[0];
}
const mortise_attention_table& paged() {
  return *static_cast<const mortise_attention_table*>(paged_component().table);
}

// A step as it was when the host planned it: the host's arrays are copied, the device's are addresses.
struct StepCopy {
  explicit StepCopy(const mortise_step& from) : step(from), batch(*from.batch) {
    const auto tokens = static_cast<std::size_t>(batch.num_tokens), seqs = static_cast<std::size_t>(batch.num_seqs);
    const auto keep = [&](const int32_t*& array, std::size_t count) {
      array = arrays.emplace_back(array, array + count).data();
    };
    arrays.reserve(8);
    keep(batch.token_ids, tokens);
    keep(batch.positions, tokens);
    keep(batch.cu_seqlens_q, seqs + 1);
    keep(batch.seq_lens, seqs);
    keep(batch.block_table, seqs * static_cast<std::size_t>(batch.max_blocks));
    slots.assign(batch.slot_mapping, batch.slot_mapping + tokens);
    batch.slot_mapping = slots.data();
    step.batch = &batch;
  }
  mortise_step step;
  mortise_batch batch;
  std::vector<std::vector<int32_t>> arrays;
  std::vector<int64_t> slots;
};

struct Attention {
  mortise_attention* inner = nullptr;
  mortise_device* device = nullptr;
  const RemoteTable* remote = nullptr;
  std::shared_ptr<StepCopy> step;  // set when the plan runs
};

Attention& of(void* instance) {
  return *static_cast<Attention*>(instance);
}
Attention& of(mortise_attention* instance) {
  return *reinterpret_cast<Attention*>(instance);
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  auto attention = std::make_unique<Attention>();
  void* inner = nullptr;
  const mortise_status status = paged_component().create(host, args, &inner, error);
  if (status != MORTISE_OK) return status;
  attention->inner = static_cast<mortise_attention*>(inner);
  attention->device = args->device;
  attention->remote = static_cast<const RemoteTable*>(args->device_table->get_ext(args->device, MORTISE_EXT_REMOTE));
  *instance = attention.release();
  return status;
}
void destroy(void* instance) {
  paged_component().destroy(of(instance).inner);
  delete &of(instance);
}

mortise_status plan(mortise_attention* self, const mortise_step* step, mortise_error* error) {
  Attention& attention = of(self);
  auto copy = std::make_shared<StepCopy>(*step);
  return attention.remote->queue(
      attention.device,
      [&attention, copy](mortise_error* e) {
        attention.step = copy;
        return paged().plan(attention.inner, &copy->step, e);
      },
      error);
}

mortise_status append(mortise_attention* self, const mortise_step*, const mortise_append_args* args,
                      mortise_error* error) {
  Attention& attention = of(self);
  struct Kept {
    mortise_append_args args;
    mortise_tensor q, k, v;
    mortise_rope rope;
  };
  auto kept = std::make_shared<Kept>(Kept{*args, *args->q, *args->k, *args->v, {}});
  kept->args.q = &kept->q;
  kept->args.k = &kept->k;
  kept->args.v = &kept->v;
  if (args->rope != nullptr) {
    kept->rope = *args->rope;
    kept->args.rope = &kept->rope;
  }
  return attention.remote->queue(
      attention.device,
      [&attention, kept](mortise_error* e) {
        return paged().append(attention.inner, &attention.step->step, &kept->args, e);
      },
      error);
}

mortise_status run(mortise_attention* self, const mortise_step*, int32_t layer, const mortise_tensor* q,
                   const mortise_tensor* out, mortise_error* error) {
  Attention& attention = of(self);
  return attention.remote->queue(
      attention.device,
      [&attention, layer, q = *q, out = *out](mortise_error* e) {
        return paged().run(attention.inner, &attention.step->step, layer, &q, &out, e);
      },
      error);
}

mortise_status copy_blocks(mortise_attention* self, mortise_stream*, const int32_t* from, const int32_t* to,
                           int32_t num_blocks, mortise_error* error) {
  Attention& attention = of(self);
  return attention.remote->queue(
      attention.device,
      [&attention, f = std::vector(from, from + num_blocks), t = std::vector(to, to + num_blocks)](mortise_error* e) {
        return paged().copy_blocks(attention.inner, nullptr, f.data(), t.data(), static_cast<int32_t>(f.size()), e);
      },
      error);
}

constexpr mortise_attention_table kTable = {
    sizeof(mortise_attention_table),
    0,
    [](mortise_attention* self, const mortise_model_dims* dims, int32_t kv_dtype, int32_t block_size,
       mortise_kv_layout* layout,
       mortise_error* error) { return paged().kv_layout(of(self).inner, dims, kv_dtype, block_size, layout, error); },
    [](mortise_attention* self, const mortise_attention_bind_args* args, mortise_error* error) {
      return paged().bind(of(self).inner, args, error);
    },
    plan,
    append,
    run,
    copy_blocks,
};

mortise_component make_component() {
  mortise_component c = paged_component();
  c.capabilities |= MORTISE_CAP_CAPTURE;
  c.table = &kTable;
  c.supports = [](const mortise_query* query, mortise_error* reason) -> mortise_status {
    if (query->device != nullptr && std::string_view(query->device) != "remote") {
      return set_error(reason, MORTISE_UNIMPLEMENTED, "paged", "this file is for the device remote");
    }
    mortise_query same = *query;
    same.device = "cpu";
    return paged_component().supports(&same, reason);
  };
  c.create = create;
  c.destroy = destroy;
  c.activate = [](void* instance, const mortise_activate_args* args, mortise_error* error) {
    return paged_component().activate(of(instance).inner, args, error);
  };
  c.deactivate = [](void* instance) { paged_component().deactivate(of(instance).inner); };
  return c;
}

const mortise_component* component() {
  static const mortise_component value = make_component();
  return &value;
}

// The same, but it says that it has no multi-query rows, and holds the host to it: runs of a sequence that is in the
// batch more than once have one row each, but for the first, which may be a prompt.
const mortise_component* single_component() {
  static const mortise_attention_table table = [] {
    mortise_attention_table value = kTable;
    value.plan = [](mortise_attention* self, const mortise_step* step, mortise_error* error) -> mortise_status {
      const mortise_batch& batch = *step->batch;
      for (int32_t i = 1; i < batch.num_real_seqs; ++i) {
        if (batch.seq_ids[i] != batch.seq_ids[i - 1] || batch.cu_seqlens_q[i + 1] - batch.cu_seqlens_q[i] == 1)
          continue;
        return set_error(error, MORTISE_INVALID_ARGUMENT, "plan", "several rows of a draft");
      }
      return plan(self, step, error);
    };
    return value;
  }();
  static const mortise_component value = [] {
    mortise_component c = make_component();
    c.name = "paged_single";
    c.capabilities &= ~MORTISE_CAP_MULTI_QUERY;
    c.table = &table;
    return c;
  }();
  return &value;
}

}  // namespace
}  // namespace mortise::test

MORTISE_PLUGIN("mortise.test.paged-remote", "Mortise", "0.1.0", "Apache-2.0", mortise::test::component(),
               mortise::test::single_component())
