// tests/unit/conformance/broken_scheduler.cpp: a scheduler, first come, first served, with one defect that an option
// names, or the file (file_defect.cpp).
#include <algorithm>
#include <map>
#include <set>

#include "defects.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/plan_blocks.hpp"
#include "mortise/scheduler.h"

extern const char* const file_defect;  // file_defect.cpp

namespace {

using broken::Defect;

bool is_file_with(std::string_view defect) {
  return defect == file_defect;
}

struct Scheduler {
  Defect defect;
  std::set<uint64_t> known;
  std::set<uint64_t> ended;
  int plans = 0;
  const int32_t* kept = nullptr;  // of the last view
  std::vector<int32_t> own;
  int32_t max_num_seqs, max_batched_tokens;
};

int num_instances_ever = 0;
thread_local int num_calls_of_thread = 0;

mortise_status supports(const mortise_query* query, mortise_error* reason) {
  static int num_calls = 0;
  if (is_file_with("supports_changes") && ++num_calls % 2 == 0) {
    return mortise::set_error(reason, MORTISE_UNAVAILABLE, "supports", "not this time");
  }
  if (is_file_with("supports_is_silent") && query->device != nullptr) return MORTISE_UNIMPLEMENTED;
  return MORTISE_OK;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  const auto given = mortise::known(args);
  if (given.option_reader == nullptr) {
    // Without options the defect is not known: only the one that is found without them.
    if (is_file_with("ignores_struct_size")) {
      [[maybe_unused]] static volatile int32_t sink;
      sink = static_cast<int32_t>(reinterpret_cast<std::uintptr_t>(args->option_reader));
    }
    return mortise::set_error(error, MORTISE_FAILED_PRECONDITION, "create", "this host is too old");
  }
  const mortise::Options options(given);
  const Defect defect(options.get<std::string>("defect"));
  if (defect.is("crashes_on_text") && options.get<std::string>("text").size() > 1000) std::abort();
  if (defect.is("limit_is_internal") && options.get<int>("max_num_seqs") == 1) {
    return mortise::set_error(error, MORTISE_INTERNAL, "create", "one is too few");
  }
  const mortise_status status = broken::misbehave_in_create(defect, host, args, error);
  if (status != MORTISE_OK) return status;
  if (defect.is("returns_null")) return MORTISE_OK;
  *instance = new Scheduler{
      defect, {}, {}, 0, nullptr, {}, options.get<int>("max_num_seqs"), options.get<int>("max_batched_tokens")};
  ++num_instances_ever;
  return MORTISE_OK;
}

void destroy(void* instance) {
  delete static_cast<Scheduler*>(instance);
}

mortise_status events(mortise_scheduler* handle, const mortise_schedule_events* events, mortise_error*) {
  auto& self = *reinterpret_cast<Scheduler*>(handle);
  for (int32_t i = 0; i < events->num_events; ++i) {
    const uint64_t id = events->seq_ids[i];
    if (events->kinds[i] == MORTISE_EVENT_ADDED) self.known.insert(id);
    if (events->kinds[i] != MORTISE_EVENT_ENDED) continue;
    if (self.defect.is("ends_must_be_known") && !self.known.contains(id)) std::abort();
    if (!self.defect.is("leaks_state")) self.known.erase(id);
  }
  return MORTISE_OK;
}

// The order in which sequences get their share.
std::vector<int32_t> order_of(const Scheduler& self, const mortise_schedule_view& view) {
  std::vector<int32_t> order;
  for (int32_t i = 0; i < view.num_seqs; ++i) order.push_back(i);
  const auto running_first = [&](int32_t i) { return view.states[i] != MORTISE_SEQ_RUNNING; };
  if (self.defect.is("shortest_first")) {
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return std::pair(running_first(i), view.num_tokens[i]); });
  } else if (self.defect.is("latest_first")) {
    std::ranges::stable_sort(order, {}, [&](int32_t i) { return std::pair(running_first(i), -i); });
  } else {
    std::ranges::stable_sort(order, {}, running_first);
  }
  return order;
}

mortise_status plan(mortise_scheduler* handle, const mortise_schedule_view* shown, mortise_schedule_plan* out,
                    mortise_error* error) {
  auto& self = *reinterpret_cast<Scheduler*>(handle);
  const Defect& defect = self.defect;
  if (broken::misbehave_in_step(defect)) return MORTISE_UNAVAILABLE;
  const auto view = mortise::known(shown);
  ++self.plans;
  ++num_calls_of_thread;
  if (defect.is("keeps_view") && self.kept != nullptr && *self.kept < 0) return MORTISE_UNAVAILABLE;
  self.kept = view.num_tokens;
  if (defect.is("unknown_is_internal")) {
    for (int32_t i = 0; i < view.num_seqs; ++i) {
      if (!self.known.contains(view.seq_ids[i])) {
        return mortise::set_error(error, MORTISE_INTERNAL, "plan", "an unknown sequence");
      }
    }
  }
  if (defect.is("changes_view")) const_cast<int32_t*>(view.states)[0] = MORTISE_SEQ_RUNNING;
  if (defect.is("reads_past_view") && view.num_tokens[view.num_seqs + 1] < -1) return MORTISE_OK;
  if (defect.is("slow") && view.num_seqs > 1000) ::usleep(600000);

  const std::vector<int32_t> order = order_of(self, view);
  int64_t rows = std::min(view.token_budget, self.max_batched_tokens);
  int64_t places = std::min(view.seq_budget, self.max_num_seqs) -
                   std::count(view.states, view.states + view.num_seqs, MORTISE_SEQ_RUNNING);
  if (defect.is("ignores_rows")) rows += 1;
  if (defect.is("ignores_places")) places += 1;
  if (defect.is("alternates") && self.plans % 2 == 0) rows = std::min<int64_t>(rows, 2);
  if (defect.is("depends_on_thread") && num_calls_of_thread < 6) rows = 1;
  if (defect.is("shares_statics") && num_instances_ever > 2) rows = std::min<int64_t>(rows, 5);
  out->num_scheduled = out->num_preempted = out->num_pins = 0;
  mortise::PlanBlocks blocks(view);
  if (defect.is("counts_each_alone")) blocks.take(-2);
  const bool whole = (view.flags & MORTISE_VIEW_WHOLE_DRAFTS) != 0 && !defect.is("cuts_drafts");
  std::set<int32_t> preempted;
  const auto end_of = [&](int32_t i, int64_t n) {
    const int64_t start = mortise_plan_run_begin(&view, i);
    return start + n + (start + n == view.num_tokens[i] ? out->max_drafts[i] : 0);
  };
  for (const int32_t i : order) out->max_drafts[i] = whole ? view.lookahead[i] : 0;
  if (defect.is("grants_too_much")) out->max_drafts[0] = view.lookahead[0] + 1;
  // The oldest must have room for a row, if need be with the blocks of the latest.
  const int32_t first = std::ranges::find(order, 0) == order.end() ? order.front() : 0;
  for (int32_t later = view.num_seqs - 1; later > 0 && !defect.is("never_preempts"); --later) {
    const bool has_place = view.states[first] == MORTISE_SEQ_RUNNING || places > 0;
    if (has_place && blocks.needed(first, end_of(first, 1)) <= blocks.num_free()) break;
    if (view.states[later] != MORTISE_SEQ_RUNNING) continue;
    blocks.preempt(later);
    preempted.insert(later);
    out->preempted[out->num_preempted++] = later;
    ++places;
  }
  const auto schedule = [&](int32_t i) {
    const bool waits = view.states[i] == MORTISE_SEQ_WAITING;
    if (preempted.contains(i) || (waits && places <= 0)) return;
    const int64_t start = mortise_plan_run_begin(&view, i);
    int64_t n = view.num_tokens[i] - start;
    const auto fits = [&] {
      const int64_t end = end_of(i, n);
      return end - start <= rows && blocks.needed(i, end) <= blocks.num_free();
    };
    if (defect.is("whole_prompts_only") && !fits()) return;
    while (n > 0 && !fits()) --n;
    if (n == 0) return;
    out->seqs[out->num_scheduled] = i;
    out->num_new_tokens[out->num_scheduled++] = static_cast<int32_t>(n);
    blocks.run(i, end_of(i, n));
    rows -= end_of(i, n) - start;
    places -= waits;
  };
  if (!defect.is("latest_first") && !defect.is("shortest_first")) schedule(first);
  for (const int32_t i : order) {
    const bool is_done = std::find(out->seqs, out->seqs + out->num_scheduled, i) != out->seqs + out->num_scheduled;
    if (!is_done) schedule(i);
  }
  if (defect.is("writes_past_output")) out->seqs[view.num_seqs + 1] = 0;
  if (defect.is("wrong_index")) out->seqs[0] = view.num_seqs;
  if (defect.is("twice") && out->num_scheduled > 1) out->seqs[1] = out->seqs[0];
  if (defect.is("runs_too_far")) ++out->num_new_tokens[0];
  if (defect.is("preempts_and_runs") && out->num_scheduled > 1) out->preempted[out->num_preempted++] = out->seqs[0];
  if (defect.is("asks_nonsense")) {
    const int32_t wild = view.num_seqs + 5;
    view.blocks_freed(view.host_data, &wild, 1);
  }
  if (defect.is("pins_too_much")) {
    out->num_pins = 1;
    out->pins[0] = 0;
    out->pin_tokens[0] = view.num_tokens[0] + 1;
  }
  if (defect.is("changes_pointers")) {
    self.own.assign(out->seqs, out->seqs + out->num_scheduled);
    out->seqs = self.own.data();
  }
  if (defect.is("counts_wildly")) out->num_scheduled = -5;
  return MORTISE_OK;
}

const void* get_ext(void*, const char* id) {
  static constexpr mortise_sequences_table kSequences = {
      sizeof(mortise_sequences_table), 0,
      [](void* instance) -> uint64_t { return static_cast<Scheduler*>(instance)->known.size(); }};
  if (is_file_with("knows_every_extension")) return &kSequences;
  return std::strcmp(id, MORTISE_EXT_SEQUENCES) == 0 ? &kSequences : nullptr;
}

constexpr mortise_scheduler_table kTable = {sizeof(mortise_scheduler_table), 0, events, plan};

const char* schema() {
  return is_file_with("open_schema") ? R"({"type": "object", "properties": {
                   "defect": {"title": "what is broken", "type": "string", "default": "none"},
                   "text": {"title": "any text", "type": "string", "default": ""},
                   "max_num_seqs": {"title": "sequences", "type": "integer", "minimum": 1, "default": 64},
                   "max_batched_tokens": {"title": "rows", "type": "integer", "minimum": 1, "default": 2048}}})"
                                     : R"({"type": "object", "additionalProperties": false, "properties": {
                   "defect": {"title": "what is broken", "type": "string", "default": "none"},
                   "text": {"title": "any text", "type": "string", "default": ""},
                   "max_num_seqs": {"title": "sequences", "type": "integer", "minimum": 1, "default": 64},
                   "max_batched_tokens": {"title": "rows", "type": "integer", "minimum": 1, "default": 2048}}})";
}

mortise_component component() {
  mortise_component c{};
  c.struct_size = sizeof c;
  c.kind = MORTISE_KIND_SCHEDULER;
  c.capabilities = is_file_with("wrong_capability") ? MORTISE_CAP_CASCADE : MORTISE_CAP_EXACT;
  c.name = "broken_scheduler";
  c.summary = is_file_with("two_line_summary") ? "one line\nand another" : "first come, first served, with a defect";
  c.options_schema = schema();
  c.numerics_id = is_file_with("has_numerics") ? "cpu-f32/1" : nullptr;
  c.table = &kTable;
  c.supports = supports;
  c.create = create;
  c.destroy = destroy;
  c.get_ext = get_ext;
  return c;
}

const mortise_component kComponent = component();

struct AtLoading {
  AtLoading() {
    if (is_file_with("talks_at_loading")) (void)!::write(STDOUT_FILENO, "hello\n", 6);
    if (is_file_with("changes_environment")) ::setenv("BROKEN", "1", 1);
    if (is_file_with("thread_at_loading")) std::thread([] { ::sleep(1000); }).detach();
    if (is_file_with("crashes_at_loading")) std::abort();
    if (is_file_with("process_at_loading")) broken::start_stray();
    if (is_file_with("daemon_at_loading")) broken::start_daemon();
    if (is_file_with("hidden_daemon_at_loading")) {
      ::prctl(PR_SET_CHILD_SUBREAPER, 0);  // so that the suite's process does not get the daemon
      broken::start_daemon();
    }
    if (is_file_with("twin_at_loading")) broken::fork_stray();  // both go on
    if (is_file_with("chain_at_loading")) broken::start_chain();
  }
} at_loading;

}  // namespace

MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args* args) {
  static const mortise_component* const components[] = {&kComponent};
  static mortise_module modules[2];
  static int num_calls = 0;
  const int at = is_file_with("entry_changes") ? num_calls++ % 2 : 0;
  modules[at] = {sizeof(mortise_module), 0,         MORTISE_ABI_MINOR, 1, "test.broken", "Tests", "1.0.0",
                 "Apache-2.0",           components};
  if (is_file_with("refuses_newer_hosts") && args->abi_minor > MORTISE_ABI_MINOR) return nullptr;
  return &modules[at];
}
