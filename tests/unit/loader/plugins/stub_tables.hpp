// tests/unit/loader/plugins/stub_tables.hpp: tables of all kinds that are complete and do nothing, for plugins that are
// looked at, created and destroyed, but never run.
#pragma once

#include <type_traits>

#include "mortise/attention.h"
#include "mortise/proposer.h"
#include "mortise/scheduler.h"

namespace stub {

// A function for any slot: a status function that reports UNIMPLEMENTED, another one that returns zero.
template <typename Function>
struct Any;
template <typename Result, typename... Args>
struct Any<Result (*)(Args...)> {
  static Result call(Args...) {
    if constexpr (std::is_same_v<Result, mortise_status>) {
      return MORTISE_UNIMPLEMENTED;
    } else if constexpr (!std::is_void_v<Result>) {
      return Result{};
    }
  }
};
template <typename Function>
constexpr Function any() {
  return &Any<Function>::call;
}
#define STUB(table, slot) table.slot = stub::any<decltype(table.slot)>()

constexpr mortise_device_table device_table() {
  mortise_device_table t{};
  t.struct_size = sizeof t;
  STUB(t, describe), STUB(t, numerics_id), STUB(t, memory_info), STUB(t, allocate), STUB(t, free), STUB(t, copy);
  STUB(t, fill), STUB(t, stream_create), STUB(t, stream_destroy), STUB(t, stream_synchronize), STUB(t, stream_native);
  STUB(t, event_create), STUB(t, event_destroy), STUB(t, event_record), STUB(t, event_wait), STUB(t, event_synchronize);
  STUB(t, prepare_weight), STUB(t, free_weight), STUB(t, linear), STUB(t, embed), STUB(t, rms_norm),
      STUB(t, layer_norm);
  STUB(t, gated_activation), STUB(t, activation), STUB(t, add), STUB(t, gather_rows), STUB(t, head_reduce);
  STUB(t, sample), STUB(t, vocab_slice), STUB(t, get_ext), STUB(t, scatter_rows);
  STUB(t, host_allocate), STUB(t, host_free);
  return t;
}

constexpr mortise_model_table model_table() {
  mortise_model_table t{};
  t.struct_size = sizeof t;
  STUB(t, dims), STUB(t, load), STUB(t, forward), STUB(t, head);
  return t;
}

constexpr mortise_attention_table attention_table() {
  mortise_attention_table t{};
  t.struct_size = sizeof t;
  STUB(t, kv_layout), STUB(t, bind), STUB(t, plan), STUB(t, append), STUB(t, run), STUB(t, copy_blocks);
  return t;
}

constexpr mortise_proposer_table proposer_table() {
  mortise_proposer_table t{};
  t.struct_size = sizeof t;
  STUB(t, bind), STUB(t, observe), STUB(t, propose);
  return t;
}

constexpr mortise_scheduler_table scheduler_table() {
  mortise_scheduler_table t{};
  t.struct_size = sizeof t;
  STUB(t, events), STUB(t, plan);
  return t;
}

#undef STUB

inline mortise_status supports_all(const mortise_query*, mortise_error*) {
  return MORTISE_OK;
}
inline mortise_status create_nothing(const mortise_host*, const mortise_create_args*, void** instance, mortise_error*) {
  static char nothing;
  *instance = &nothing;
  return MORTISE_OK;
}
inline void destroy_nothing(void*) {}

constexpr mortise_component component(int32_t kind, const char* name, const char* schema, const void* table) {
  mortise_component c{};
  c.struct_size = sizeof c;
  c.kind = kind;
  c.name = name;
  c.summary = "a part for tests";
  c.options_schema = schema;
  c.table = table;
  c.supports = supports_all;
  c.create = create_nothing;
  c.destroy = destroy_nothing;
  return c;
}

}  // namespace stub
