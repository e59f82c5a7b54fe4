#include "abi_record/call_recorder.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#include "abi_record/fields.hpp"
#include "loader/active_part.hpp"
#include "loader/component_wrapper.hpp"

namespace mortise {
namespace abi_record {

nlohmann::json plan_output(const mortise_schedule_plan& plan, std::int32_t num_seqs) {
  Writer writer;
  writer.scalar("num_scheduled", plan.num_scheduled);
  writer.scalar("num_preempted", plan.num_preempted);
  writer.scalar("num_pins", plan.num_pins);
  const auto within = [&](std::int32_t count) { return std::clamp(count, 0, num_seqs); };
  const auto array = [&](const char* name, const std::int32_t* values, std::int32_t count) {
    writer.array(name, values, within(count));
  };
  array("seqs", plan.seqs, plan.num_scheduled);
  array("num_new_tokens", plan.num_new_tokens, plan.num_scheduled);
  array("preempted", plan.preempted, plan.num_preempted);
  array("pins", plan.pins, plan.num_pins);
  array("pin_tokens", plan.pin_tokens, plan.num_pins);
  array("max_drafts", plan.max_drafts, num_seqs);
  return writer.take();
}

nlohmann::json proposal_output(const mortise_proposal_args& args) {
  nlohmann::json drafts = nlohmann::json::array(), parents = nlohmann::json::array();
  const auto row = [&](const std::int32_t* values, std::int32_t i) {
    const std::int32_t count = std::clamp(args.num_drafts[i], 0, args.draft_stride);
    const std::int32_t* const begin = values + static_cast<std::ptrdiff_t>(i) * args.draft_stride;
    return nlohmann::json(std::vector<std::int32_t>(begin, begin + count));
  };
  for (std::int32_t i = 0; i < args.num_seqs; ++i) {
    drafts.push_back(row(args.tokens, i));
    if (args.parents != nullptr) parents.push_back(row(args.parents, i));
  }
  nlohmann::json out = {{"num_drafts", std::vector<std::int32_t>(args.num_drafts, args.num_drafts + args.num_seqs)},
                        {"tokens", std::move(drafts)}};
  if (args.parents != nullptr) out["parents"] = std::move(parents);
  return out;
}

namespace {

using nlohmann::json;

// The file. A line is complete in it before the next call. Used by one thread at a time: the thread that runs steps,
// or the one that opens and closes parts.
class CallLog {
 public:
  explicit CallLog(std::string path) : path_(std::move(path)), file_(path_, std::ios::trunc) {
    if (!file_) fail("--record-abi {}: cannot be written; check the path and its permissions", path_);
  }
  void write(const json& line) {
    if (has_failed_) return;
    file_ << line.dump(-1, ' ', true, json::error_handler_t::replace) << '\n' << std::flush;
    if (file_) return;
    has_failed_ = true;
    spdlog::error("--record-abi {}: can no longer be written; the record ends here", path_);
  }
  void begin(const char* function, json in) {
    write({{"call", ++number_}, {"function", function}, {"in", std::move(in)}});
  }
  void end(mortise_status status, json out) {
    write({{"result", number_}, {"status", status}, {"out", std::move(out)}});
  }

 private:
  const std::string path_;
  std::ofstream file_;
  std::int64_t number_ = 0;
  bool has_failed_ = false;
};

// The recorded component and its one instance. Never freed: both are reachable as long as the process runs.
struct Recording {
  struct Host : mortise_host {
    Recording* self;
  };

  explicit Recording(std::string path) : log(std::move(path)) {}

  std::string wanted;  // the part's name; empty: the scheduler
  CallLog log;
  const mortise_component* real = nullptr;
  mortise_component abi{};
  std::unique_ptr<Component> component;
  mortise_scheduler_table scheduler{};
  mortise_proposer_table proposer{};
  const mortise_host* real_host = nullptr;
  Host host{};
  std::string unrecorded;  // an extension of the host that the part asked for
  void* instance = nullptr;
  std::int32_t num_layers = 0;
  json freed = json::array();  // the questions of blocks_freed in this plan, with their answers
  const mortise_schedule_view* view = nullptr;
};

Recording* recording = nullptr;  // set by record_abi_calls(), before parts are opened

template <typename Table>
const Table& real_table() {
  return *static_cast<const Table*>(recording->real->table);
}
template <typename Handle>
Handle* real_instance() {
  return static_cast<Handle*>(recording->instance);
}

mortise_status refuse_call(mortise_error* error, const std::string& text) {
  if (error != nullptr) *fmt::format_to_n(error->message, sizeof error->message - 1, "{}", text).out = '\0';
  return MORTISE_UNIMPLEMENTED;
}

// Makes one call. A part that needs an extension of the host cannot run from a record, so its call fails.
template <typename Body, typename Out>
mortise_status recorded(const char* function, json in, mortise_error* error, Body&& body, Out&& out) {
  recording->log.begin(function, std::move(in));
  const mortise_status status = body();
  if (!recording->unrecorded.empty()) {
    return refuse_call(error, fmt::format("it uses {}, whose results --record-abi cannot record; record another part",
                                          recording->unrecorded));
  }
  recording->log.end(status, status == MORTISE_OK ? out() : json::object());
  return status;
}

json nothing() {
  return json::object();
}

const void* host_extension(const mortise_host*, const char* id) {
  if (id != nullptr && recording->real_host->get_ext(recording->real_host, id) != nullptr) recording->unrecorded = id;
  return nullptr;
}

void set_host(const mortise_host& real) {
  recording->real_host = &real;
  auto& host = recording->host;
  static_cast<mortise_host&>(host) = real;
  host.struct_size = sizeof(mortise_host);
  host.self = recording;
  host.log = [](const mortise_host*, std::int32_t level, mortise_string_view text) {
    recording->real_host->log(recording->real_host, level, text);
  };
  host.allocate = [](const mortise_host*, std::uint64_t bytes, std::uint64_t alignment) {
    return recording->real_host->allocate(recording->real_host, bytes, alignment);
  };
  host.free = [](const mortise_host*, void* memory) { recording->real_host->free(recording->real_host, memory); };
  host.now_ns = [](const mortise_host*) { return recording->real_host->now_ns(recording->real_host); };
  host.get_ext = host_extension;
}

mortise_status create(const mortise_host* host, const mortise_create_args* args, void** instance,
                      mortise_error* error) {
  set_host(*host);
  mortise_create_args given = *args;
  given.device = nullptr;  // a replay has no device
  given.device_table = nullptr;
  const json in = {{"options", json::parse(std::string_view(args->options.data, args->options.size))},
                   {"model_config", std::string(args->model_config.data, args->model_config.size)}};
  const auto call = [&] { return recording->real->create(&recording->host, &given, &recording->instance, error); };
  const mortise_status status = recorded("create", in, error, call, nothing);
  *instance = recording->instance;
  return status;
}

void destroy(void*) {
  recorded(
      "destroy", json::object(), nullptr, [] { return recording->real->destroy(recording->instance), MORTISE_OK; },
      nothing);
}

mortise_status activate(void*, const mortise_activate_args* args, mortise_error* error) {
  return recorded(
      "activate", to_json(*args), error, [&] { return recording->real->activate(recording->instance, args, error); },
      nothing);
}

void deactivate(void*) {
  recorded(
      "deactivate", json::object(), nullptr,
      [] { return recording->real->deactivate(recording->instance), MORTISE_OK; }, nothing);
}

// An instance's handle is the real one, so tables of its extensions can be passed on.
const void* get_ext(void* instance, const char* id) {
  return recording->real->get_ext == nullptr ? nullptr : recording->real->get_ext(instance, id);
}

mortise_status events(mortise_scheduler* self, const mortise_schedule_events* args, mortise_error* error) {
  json in = to_json(*args);
  json& tokens = in["tokens"] = json::array();
  for (std::int32_t i = 0; i < args->num_events; ++i) {
    const std::int32_t* const list = args->tokens == nullptr ? nullptr : args->tokens[i];
    tokens.push_back(list == nullptr ? json() : json(std::vector<std::int32_t>(list, list + args->num_tokens[i])));
  }
  return recorded(
      "events", std::move(in), error, [&] { return real_table<mortise_scheduler_table>().events(self, args, error); },
      nothing);
}

std::int32_t blocks_freed(const void*, const std::int32_t* seqs, std::int32_t num_seqs) {
  const std::int32_t count = recording->view->blocks_freed(recording->view->host_data, seqs, num_seqs);
  recording->freed.push_back({{"seqs", std::vector<std::int32_t>(seqs, seqs + num_seqs)}, {"blocks", count}});
  return count;
}

mortise_status plan(mortise_scheduler* self, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                    mortise_error* error) {
  recording->view = view;
  recording->freed = json::array();
  mortise_schedule_view shown = *view;
  shown.blocks_freed = blocks_freed;
  return recorded(
      "plan", to_json(*view), error,
      [&] { return real_table<mortise_scheduler_table>().plan(self, &shown, plan, error); },
      [&] {
        json out = plan_output(*plan, view->num_seqs);
        out["blocks_freed"] = std::move(recording->freed);
        return out;
      });
}

mortise_status bind(mortise_proposer* self, const mortise_proposer_bind_args* args, mortise_error* error) {
  return recorded(
      "bind", {{"target", to_json(*args->target)}, {"vocab_hash", args->vocab_hash}}, error,
      [&] { return real_table<mortise_proposer_table>().bind(self, args, error); }, nothing);
}

mortise_status observe(mortise_proposer* self, const mortise_observation* seen, mortise_error* error) {
  return recorded(
      "observe", to_json(*seen), error, [&] { return real_table<mortise_proposer_table>().observe(self, seen, error); },
      nothing);
}

mortise_status propose(mortise_proposer* self, const mortise_step*, const mortise_proposal_args* args,
                       mortise_error* error) {
  if (args->distributions != nullptr) return refuse_call(error, "--record-abi does not record draft distributions");
  mortise_step none{};  // as in a replay
  none.struct_size = sizeof none;
  json in = to_json(*args);
  in["gives_parents"] = args->parents != nullptr;
  return recorded(
      "propose", std::move(in), error,
      [&] { return real_table<mortise_proposer_table>().propose(self, &none, args, error); },
      [&] { return proposal_output(*args); });
}

std::int32_t max_drafts(mortise_proposer* self) {
  std::int32_t most = 0;
  recorded(
      "max_drafts", json::object(), nullptr,
      [&] { return most = real_table<mortise_proposer_table>().max_drafts(self), MORTISE_OK; },
      [&] {
        return json{{"max_drafts", most}};
      });
  return most;
}

// Our functions, in a table of the size that the plugin's has.
const void* make_table(PartKind kind) {
  if (kind == PartKind::kScheduler) {
    recording->scheduler = {sizeof recording->scheduler, 0, events, plan};
    return &recording->scheduler;
  }
  const auto& real = real_table<mortise_proposer_table>();
  const bool says_most = MORTISE_HAS(&real, max_drafts);
  recording->proposer = {sizeof recording->proposer, 0, bind, observe, propose, says_most ? max_drafts : nullptr};
  return &recording->proposer;
}

const Component* wrap(const Component& component) {
  const bool is_wanted =
      recording->wanted.empty() ? component.kind == PartKind::kScheduler : component.name == recording->wanted;
  if (!is_wanted || recording->component != nullptr) return &component;
  if (component.kind != PartKind::kScheduler && component.kind != PartKind::kProposer) {
    fail(
        "--record-abi {}: it is of kind {}, whose calls use device memory; only schedulers and proposers can be "
        "recorded",
        component.name, kind_name(component.kind));
  }
  if ((component.capabilities & MORTISE_CAP_NEEDS_HIDDEN) != 0) {
    fail("--record-abi {}: it reads hidden rows in device memory, which cannot be recorded", component.name);
  }
  recording->real = component.abi;
  recording->component = std::make_unique<Component>(component);
  recording->abi = *component.abi;
  recording->abi.table = make_table(component.kind);
  recording->abi.create = create;
  recording->abi.destroy = destroy;
  recording->abi.get_ext = get_ext;
  if (component.abi->activate != nullptr) {
    recording->abi.activate = activate;
    recording->abi.deactivate = deactivate;
  }
  recording->component->abi = &recording->abi;
  recording->log.write({{"mortise_abi_record", kFormat},
                        {"abi_minor", MORTISE_ABI_MINOR},
                        {"kind", kind_name(component.kind)},
                        {"name", component.name},
                        {"version", component.version},
                        {"hash", component.hash}});
  return recording->component.get();
}

}  // namespace
}  // namespace abi_record

void record_abi_calls(const std::string& target) {
  using abi_record::recording;
  const auto equals = target.find('=');
  const std::string path = equals == std::string::npos ? target : target.substr(equals + 1);
  recording = new abi_record::Recording(path);
  if (equals != std::string::npos) recording->wanted = target.substr(0, equals);
  wrap_components(abi_record::wrap);
}

}  // namespace mortise
