#include "abi_record/call_recorder.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <utility>

#include "abi_record/fields.hpp"
#include "abi_record/recorded_instance.hpp"
#include "loader/active_part.hpp"

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

// Global: the functions of a table have no context.
InstanceStates<RecordedInstance>& instances() {
  static auto* const states = new InstanceStates<RecordedInstance>;
  return *states;
}

mortise_status refuse_call(mortise_error* error, const std::string& text) {
  if (error != nullptr) *fmt::format_to_n(error->message, sizeof error->message - 1, "{}", text).out = '\0';
  return MORTISE_UNIMPLEMENTED;
}

namespace {

const RecordedInstance& self_of(const mortise_host* host) {
  return *static_cast<const RecordedInstance::Host*>(host)->self;
}

const void* host_extension(const mortise_host* host, const char* id) {
  RecordedInstance& self = *static_cast<const RecordedInstance::Host*>(host)->self;
  if (id != nullptr && self.real_host->get_ext(self.real_host, id) != nullptr) self.unrecorded = id;
  return nullptr;
}

void set_host(RecordedInstance& self, const mortise_host& real) {
  self.real_host = &real;
  static_cast<mortise_host&>(self.host) = real;
  self.host.struct_size = sizeof(mortise_host);
  self.host.self = &self;
  self.host.log = [](const mortise_host* host, std::int32_t level, mortise_string_view text) {
    self_of(host).real_host->log(self_of(host).real_host, level, text);
  };
  self.host.allocate = [](const mortise_host* host, std::uint64_t bytes, std::uint64_t alignment) {
    return self_of(host).real_host->allocate(self_of(host).real_host, bytes, alignment);
  };
  self.host.free = [](const mortise_host* host, void* memory) {
    self_of(host).real_host->free(self_of(host).real_host, memory);
  };
  self.host.now_ns = [](const mortise_host* host) { return self_of(host).real_host->now_ns(self_of(host).real_host); };
  self.host.get_ext = host_extension;
}

bool has_host_memory(const mortise_create_args& args) {
  mortise_device_info info{};
  info.struct_size = sizeof info;
  return args.device != nullptr && args.device_table->describe(args.device, &info) == MORTISE_OK &&
         info.host_memory == 1;
}

mortise_status create(RecordedComponent& part, const mortise_host* host, const mortise_create_args* args,
                      void** instance, mortise_error* error) {
  const auto self = std::make_shared<RecordedInstance>(part);
  mortise_create_args given = *args;
  if (self->is_recorded) {
    set_host(*self, *host);
    if (part.real.kind != PartKind::kAttention) {
      given.device = nullptr;  // a replay has no device
      given.device_table = nullptr;
    } else if (!has_host_memory(*args)) {
      return refuse_call(error, "--record-abi cannot record it: its device does not compute in host memory");
    }
    host = &self->host;
    part.log.write({{"mortise_abi_record", kFormat},
                    {"abi_minor", MORTISE_ABI_MINOR},
                    {"kind", kind_name(part.real.kind)},
                    {"name", part.real.name},
                    {"version", part.real.version},
                    {"hash", part.real.hash}});
  }
  const auto in = [&] {
    return json{{"options", json::parse(std::string_view(args->options.data, args->options.size))},
                {"model_config", std::string(args->model_config.data, args->model_config.size)}};
  };
  const auto call = [&] { return part.real.create(host, &given, &self->handle, error); };
  const mortise_status status = recorded(*self, "create", error, in, call, nothing);
  *instance = self->handle;
  if (self->handle != nullptr) instances().add(self->handle, self);
  return status;
}

void destroy(void* handle) {
  const auto self = instance_of(handle);
  instances().remove(handle);
  recorded(
      *self, "destroy", nullptr, nothing, [&] { return self->abi().destroy(handle), MORTISE_OK; }, nothing);
}

mortise_status activate(void* handle, const mortise_activate_args* args, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "activate", error, [&] { return to_json(*args); },
      [&] { return self->abi().activate(handle, args, error); }, nothing);
}

void deactivate(void* handle) {
  const auto self = instance_of(handle);
  recorded(
      *self, "deactivate", nullptr, nothing, [&] { return self->abi().deactivate(handle), MORTISE_OK; }, nothing);
}

// An instance's handle is the real one, so tables of its extensions can be passed on.
const void* get_ext(void* handle, const char* id) {
  return instance_of(handle)->abi().get_ext(handle, id);
}

mortise_status events(mortise_scheduler* handle, const mortise_schedule_events* args, mortise_error* error) {
  const auto self = instance_of(handle);
  const auto in = [&] {
    json in = to_json(*args);
    json& tokens = in["tokens"] = json::array();
    for (std::int32_t i = 0; i < args->num_events; ++i) {
      const std::int32_t* const list = args->tokens == nullptr ? nullptr : args->tokens[i];
      tokens.push_back(list == nullptr ? json() : json(std::vector<std::int32_t>(list, list + args->num_tokens[i])));
    }
    return in;
  };
  return recorded(
      *self, "events", error, in, [&] { return self->table<mortise_scheduler_table>().events(handle, args, error); },
      nothing);
}

std::int32_t blocks_freed(const void* host_data, const std::int32_t* seqs, std::int32_t num_seqs) {
  auto& self = *static_cast<RecordedInstance*>(const_cast<void*>(host_data));
  const std::int32_t count = self.view->blocks_freed(self.view->host_data, seqs, num_seqs);
  self.freed.push_back({{"seqs", std::vector<std::int32_t>(seqs, seqs + num_seqs)}, {"blocks", count}});
  return count;
}

mortise_status plan(mortise_scheduler* handle, const mortise_schedule_view* view, mortise_schedule_plan* plan,
                    mortise_error* error) {
  const auto self = instance_of(handle);
  self->view = view;
  self->freed = json::array();
  mortise_schedule_view shown = *view;
  shown.blocks_freed = blocks_freed;
  shown.host_data = self.get();
  return recorded(
      *self, "plan", error, [&] { return to_json(*view); },
      [&] { return self->table<mortise_scheduler_table>().plan(handle, &shown, plan, error); },
      [&] {
        json out = plan_output(*plan, view->num_seqs);
        out["blocks_freed"] = std::move(self->freed);
        return out;
      });
}

mortise_status bind(mortise_proposer* handle, const mortise_proposer_bind_args* args, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "bind", error,
      [&] {
        return json{{"target", to_json(*args->target)}, {"vocab_hash", args->vocab_hash}};
      },
      [&] { return self->table<mortise_proposer_table>().bind(handle, args, error); }, nothing);
}

mortise_status observe(mortise_proposer* handle, const mortise_observation* seen, mortise_error* error) {
  const auto self = instance_of(handle);
  return recorded(
      *self, "observe", error, [&] { return to_json(*seen); },
      [&] { return self->table<mortise_proposer_table>().observe(handle, seen, error); }, nothing);
}

mortise_status propose(mortise_proposer* handle, const mortise_step* step, const mortise_proposal_args* args,
                       mortise_error* error) {
  const auto self = instance_of(handle);
  const auto& table = self->table<mortise_proposer_table>();
  if (!self->is_recorded) return table.propose(handle, step, args, error);
  if (args->distributions != nullptr) return refuse_call(error, "--record-abi does not record draft distributions");
  mortise_step none{};  // as a replay passes it
  none.struct_size = sizeof none;
  const auto in = [&] {
    json in = to_json(*args);
    in["gives_parents"] = args->parents != nullptr;
    return in;
  };
  return recorded(
      *self, "propose", error, in, [&] { return table.propose(handle, &none, args, error); },
      [&] { return proposal_output(*args); });
}

std::int32_t max_drafts(mortise_proposer* handle) {
  const auto self = instance_of(handle);
  std::int32_t most = 0;
  recorded(
      *self, "max_drafts", nullptr, nothing,
      [&] { return most = self->table<mortise_proposer_table>().max_drafts(handle), MORTISE_OK; },
      [&] {
        return json{{"max_drafts", most}};
      });
  return most;
}

// Returns a table of our functions with the same slots as the plugin's table.
const void* make_table(RecordedComponent& part) {
  if (part.real.kind == PartKind::kScheduler) {
    part.scheduler = {sizeof part.scheduler, 0, events, plan};
    return &part.scheduler;
  }
  if (part.real.kind == PartKind::kAttention) {
    part.attention = recorded_attention();
    return &part.attention;
  }
  const bool says_most = MORTISE_HAS(part.real.table<mortise_proposer_table>(), max_drafts);
  part.proposer = {sizeof part.proposer, 0, bind, observe, propose, says_most ? max_drafts : nullptr};
  return &part.proposer;
}

}  // namespace

RecordedComponent::RecordedComponent(const Component& component, CallLog& log)
    : real(component), log(log), component(component), abi(*component.abi) {
  abi.struct_size = sizeof abi;
  abi.table = make_table(*this);
  abi.destroy = destroy;
  if (abi.get_ext != nullptr) abi.get_ext = get_ext;
  if (abi.activate != nullptr) abi.activate = activate;
  if (abi.deactivate != nullptr) abi.deactivate = deactivate;
  this->component.abi = &abi;
  this->component.creator = [this](const mortise_host* host, const mortise_create_args* args, void** instance,
                                   mortise_error* error) { return create(*this, host, args, instance, error); };
}

namespace {

void check_can_be_recorded(const Component& component) {
  if (component.kind == PartKind::kDevice || component.kind == PartKind::kModel) {
    fail(
        "--record-abi {}: it is of kind {}, whose calls use weights; only schedulers, proposers and attentions can be "
        "recorded",
        component.name, kind_name(component.kind));
  }
  if ((component.capabilities & MORTISE_CAP_NEEDS_HIDDEN) != 0) {
    fail("--record-abi {}: it reads hidden rows in device memory, which cannot be recorded", component.name);
  }
}

std::string path_of(const std::string& target) {
  const auto equals = target.find('=');
  return equals == std::string::npos ? target : target.substr(equals + 1);
}

}  // namespace
}  // namespace abi_record

struct CallRecorder::Parts {
  explicit Parts(const std::string& path) : log(path) {}

  abi_record::CallLog log;
  std::deque<abi_record::RecordedComponent> recorded;
};

CallRecorder::CallRecorder(const std::string& target)
    : wanted_(target.substr(0, target.find('=') == std::string::npos ? 0 : target.find('='))),
      parts_(std::make_unique<Parts>(abi_record::path_of(target))) {}

CallRecorder::~CallRecorder() = default;

const Component& CallRecorder::component(const Component& component) {
  const std::lock_guard lock(mutex_);
  for (const auto& recorded : parts_->recorded) {
    if (&component == &recorded.real || &component == &recorded.component) return recorded.component;
  }
  const bool is_wanted = wanted_.empty() ? component.kind == PartKind::kScheduler : component.name == wanted_;
  if (!is_wanted) return component;
  abi_record::check_can_be_recorded(component);
  return parts_->recorded.emplace_back(component, parts_->log).component;
}

}  // namespace mortise
