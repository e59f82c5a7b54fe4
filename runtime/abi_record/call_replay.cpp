#include "abi_record/call_replay.hpp"

#include <algorithm>
#include <fstream>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "abi_record/attention_replay.hpp"
#include "abi_record/fields.hpp"
#include "conformance/case.hpp"
#include "conformance/part.hpp"
#include "json/bounded_json.hpp"
#include "loader/catalog.hpp"

namespace mortise {
namespace abi_record {
namespace {

using conformance::Answer;
using conformance::GuardedArray;
using conformance::Part;
using conformance::ReadOnlyCopies;
using nlohmann::json;

constexpr std::size_t kMaxLineBytes = std::size_t{64} << 20;
constexpr std::int32_t kUnwritten = -1;  // outputs are filled with it before a call

// The lines of a record. Throws an Error for a line that is cut, too long or no JSON object. Used by one thread.
class RecordLines {
 public:
  RecordLines(std::istream& file, std::string name) : name_(std::move(name)), file_(file) {}
  // Returns the next line; nullopt at the end.
  std::optional<json> next() {
    std::string line;
    ++number_;
    for (char c; file_.get(c);) {
      if (c == '\n') return parsed(line);
      if (line.size() == kMaxLineBytes) fail("a line is longer than 64 MiB");
      line += c;
    }
    if (!line.empty()) fail("the last line is incomplete; copy the whole record");
    return std::nullopt;
  }
  std::string where() const { return fmt::format("{}:{}", name_, number_); }

 private:
  static json parsed(const std::string& line) {
    json value = parse_json(line);
    if (!value.is_object()) fail("the line is not a JSON object");
    return value;
  }

  const std::string name_;
  std::istream& file_;
  std::int64_t number_ = 0;
};

std::string text_of(const json& line, const char* name) {
  const json& value = member(line, name);
  if (!value.is_string()) fail("'{}' is not a text", name);
  return value.get<std::string>();
}

std::int32_t count_of(std::int32_t count, const char* name) {
  if (count < 0 || count > kMaxLength) fail("'{}' is {}", name, count);
  return count;
}

// Answers blocks_freed from the record of a plan. A question that the record does not have is a difference.
struct FreedBlocks {
  const json& answers;
  json asked = json::array();

  static std::int32_t answer(const void* data, const std::int32_t* seqs, std::int32_t num_seqs) {
    auto& self = *static_cast<FreedBlocks*>(const_cast<void*>(data));
    const json list = std::vector<std::int32_t>(seqs, seqs + std::max(num_seqs, 0));
    const json* known = nullptr;
    for (const json& one : self.answers) {
      if (one.is_object() && one.contains("seqs") && one["seqs"] == list) known = &one;
    }
    const std::int32_t blocks =
        known == nullptr || !known->contains("blocks") ? 0 : read_number<std::int32_t>((*known)["blocks"], "blocks");
    self.asked.push_back({{"seqs", list}, {"blocks", blocks}});
    return blocks;
  }
};

// Returns the first candidate device that computes in host memory and that the attention supports, already activated.
// Null: there is none.
std::shared_ptr<const PartInstance> open_device(const Component& attention,
                                                const std::vector<const Component*>& candidates) {
  for (const Component* candidate : candidates) {
    mortise_query query{};
    query.struct_size = sizeof query;
    query.device = candidate->name.c_str();
    if (candidate->kind != PartKind::kDevice || attention.refusal(query)) continue;
    auto device = std::make_shared<PartInstance>(
        *candidate, candidate->schema.complete(json::object(), candidate->label()), CreateContext{});
    device->activate();
    if (conformance::has_host_memory(*device)) return device;
  }
  return nullptr;
}

// Returns the device for the replay of an attention: one of the plugin file, or `cpu`. Throws an Error if there is
// none.
std::shared_ptr<const PartInstance> device_for(const Component& attention, const PluginFile& file) {
  std::vector<const Component*> own;
  for (const Component& component : file.components) own.push_back(&component);
  if (auto device = open_device(attention, own)) return device;
  if (auto device = open_device(attention, PluginCatalog::standard().find("cpu").components)) return device;
  fail("no device that computes in host memory serves the {}; put cpu.so on MORTISE_PLUGIN_PATH", attention.label());
}

// An instance under replay. Used by one thread.
class Replayed {
 public:
  Replayed(const Component& component, const PluginFile& file) : component_(component) {
    if (component.kind != PartKind::kAttention) return;
    device_ = device_for(component, file);
    attention_ = std::make_unique<AttentionReplay>(*device_);
  }

  // Makes the call of the line. `was` is the recorded output; callbacks answer from it. Returns the status and the
  // outputs as a record has them.
  std::pair<mortise_status, json> make(const std::string& function, const json& in, const json& was) {
    if (function == "create") return create(in);
    if (!part_) fail("'{}' comes before 'create'", function);
    if (function == "activate") return activate(in);
    if (function == "deactivate") return part_->deactivate(), nothing();
    if (function == "destroy") return part_.reset(), nothing();
    if (attention_ != nullptr) {
      if (AttentionReplay::is_step(function)) expect_active();
      return attention_->make(*part_, function, in);
    }
    if (component_.kind == PartKind::kScheduler) {
      if (function == "events") return events(in);
      if (function == "plan") return plan(in, was);
    } else {
      if (function == "bind") return bind(in);
      if (function == "max_drafts") return max_drafts();
      if (function == "observe") return observe(in);
      if (function == "propose") return propose(in);
    }
    fail("a {} has no function '{}'", kind_name(component_.kind), function);
  }

 private:
  using Output = CallOutput;
  static Output nothing(mortise_status status = MORTISE_OK) { return {status, json::object()}; }

  Output create(const json& in) {
    if (part_) fail("'create' comes twice");
    conformance::PartSetup setup;
    setup.options = component_.schema.complete(member(in, "options"), component_.label());
    setup.model_config = text_of(in, "model_config");
    if (device_ != nullptr) {
      setup.device = device_->handle<mortise_device>();
      setup.device_table = device_->table<mortise_device_table>();
    }
    auto part = std::make_unique<Part>(component_, std::move(setup));
    const mortise_status status = part->created().status;
    if (status == MORTISE_OK) part_ = std::move(part);
    return nothing(status);
  }

  Output activate(const json& in) {
    if (part_->is_active()) fail("'activate' comes twice");
    ReadOnlyCopies copies;
    return nothing(part_->activate(from_json<mortise_activate_args>(in, copies)).status);
  }

  Output events(const json& in) {
    ReadOnlyCopies copies;
    auto args = from_json<mortise_schedule_events>(in, copies);
    const json& lists = member(in, "tokens");
    const std::int32_t n = count_of(args.num_events, "num_events");
    if (!lists.is_array() || lists.size() != static_cast<std::size_t>(n)) fail("'tokens' is not a list of {} lists", n);
    std::vector<const std::int32_t*> tokens;
    for (std::int32_t i = 0; i < n; ++i) {
      const std::int32_t* list = nullptr;
      const json one = {{"tokens", lists[static_cast<std::size_t>(i)]}};
      Reader(one, copies).array("tokens", list, args.num_tokens == nullptr ? 0 : args.num_tokens[i]);
      tokens.push_back(list);
    }
    args.tokens = copies.copy(tokens);
    return step_call<mortise_scheduler_table, mortise_scheduler>("events", copies.copy(&args, 1),
                                                                 &mortise_scheduler_table::events);
  }

  Output plan(const json& in, const json& was) {
    ReadOnlyCopies copies;
    auto view = from_json<mortise_schedule_view>(in, copies);
    const std::int32_t n = count_of(view.num_seqs, "num_seqs");
    static const json kNone = json::array();
    FreedBlocks freed{was.contains("blocks_freed") && was["blocks_freed"].is_array() ? was["blocks_freed"] : kNone};
    view.blocks_freed = FreedBlocks::answer;
    view.host_data = &freed;
    std::vector<GuardedArray<std::int32_t>> out;
    for (int i = 0; i < 6; ++i) {
      out.emplace_back(static_cast<std::size_t>(n));
      std::ranges::fill(out.back().span(), kUnwritten);
    }
    if (view.lookahead != nullptr) std::copy_n(view.lookahead, n, out[5].data());
    mortise_schedule_plan plan{};
    plan.struct_size = sizeof plan;
    plan.seqs = out[0].data();
    plan.num_new_tokens = out[1].data();
    plan.preempted = out[2].data();
    plan.pins = out[3].data();
    plan.pin_tokens = out[4].data();
    plan.max_drafts = out[5].data();
    const auto* const shown = copies.copy(&view, 1);
    const Answer answer = part_->call("plan", [&](mortise_error* error) {
      return active_table<mortise_scheduler_table>().plan(part_->handle<mortise_scheduler>(), shown, &plan, error);
    });
    if (!answer.ok()) return nothing(answer.status);
    json output = plan_output(plan, n);
    output["blocks_freed"] = std::move(freed.asked);
    return {answer.status, std::move(output)};
  }

  Output bind(const json& in) {
    target_ = from_json<mortise_model_dims>(member(in, "target"), bound_);
    mortise_proposer_bind_args args{};
    args.struct_size = sizeof args;
    args.target = &target_;
    args.vocab_hash = read_number<std::uint64_t>(member(in, "vocab_hash"), "vocab_hash");
    return nothing(part_
                       ->call("bind",
                              [&](mortise_error* error) {
                                return part_->table<mortise_proposer_table>().bind(part_->handle<mortise_proposer>(),
                                                                                   &args, error);
                              })
                       .status);
  }

  Output max_drafts() {
    const auto& table = part_->table<mortise_proposer_table>();
    std::int32_t most = 0;
    if (MORTISE_HAS(&table, max_drafts)) {
      part_->perform("max_drafts", [&](mortise_error*) {
        return most = table.max_drafts(part_->handle<mortise_proposer>()), MORTISE_OK;
      });
    }
    return {MORTISE_OK, {{"max_drafts", most}}};
  }

  Output observe(const json& in) {
    ReadOnlyCopies copies;
    const auto seen = from_json<mortise_observation>(in, copies);
    return step_call<mortise_proposer_table, mortise_proposer>("observe", copies.copy(&seen, 1),
                                                               &mortise_proposer_table::observe);
  }

  Output propose(const json& in) {
    ReadOnlyCopies copies;
    auto args = from_json<mortise_proposal_args>(in, copies);
    const auto n = static_cast<std::size_t>(count_of(args.num_seqs, "num_seqs"));
    const auto size = n * static_cast<std::size_t>(count_of(args.draft_stride, "draft_stride"));
    if (size > kMaxLength) fail("'draft_stride' is {} for {} sequences", args.draft_stride, n);
    GuardedArray<std::int32_t> tokens(size), parents(size), num_drafts(n);
    std::ranges::fill(tokens.span(), kUnwritten);
    std::ranges::fill(parents.span(), kUnwritten);
    std::ranges::fill(num_drafts.span(), 0);
    args.tokens = tokens.data();
    args.num_drafts = num_drafts.data();
    if (member(in, "gives_parents") == true) args.parents = parents.data();
    mortise_step none{};
    none.struct_size = sizeof none;
    const auto* const shown = copies.copy(&args, 1);
    const Answer answer = part_->call("propose", [&](mortise_error* error) {
      return active_table<mortise_proposer_table>().propose(part_->handle<mortise_proposer>(), &none, shown, error);
    });
    return {answer.status, answer.ok() ? proposal_output(*shown) : json::object()};
  }

  void expect_active() const {
    if (component_.abi->activate != nullptr && !part_->is_active()) fail("a step comes before 'activate'");
  }
  template <typename Table>
  const Table& active_table() const {
    expect_active();
    return part_->table<Table>();
  }
  template <typename Table, typename Handle, typename Args, typename Slot>
  Output step_call(const char* function, const Args* args, Slot slot) {
    const Table& table = active_table<Table>();
    return nothing(
        part_->call(function, [&](mortise_error* error) { return (table.*slot)(part_->handle<Handle>(), args, error); })
            .status);
  }

  const Component& component_;
  ReadOnlyCopies bound_;  // lives until destroy
  mortise_model_dims target_{};
  std::shared_ptr<const PartInstance> device_;  // only for an attention, as is the next one
  std::unique_ptr<AttentionReplay> attention_;
  std::unique_ptr<Part> part_;
};

// Returns "/seqs/0 is 1, was 0" for the first place where two outputs differ.
std::string first_difference(const json& was, const json& is) {
  const json patch = json::diff(was, is);
  const json::json_pointer place(patch[0]["path"].get<std::string>());
  const auto value = [&](const json& all) { return all.contains(place) ? all[place].dump() : "missing"; };
  return fmt::format("{} is {}, was {}", place.to_string(), value(is), value(was));
}

const Component& component_for(const json& head, const PluginFile& file) {
  if (read_number<int>(member(head, "mortise_abi_record"), "mortise_abi_record") != kFormat ||
      read_number<int>(member(head, "abi_minor"), "abi_minor") != MORTISE_ABI_MINOR) {
    fail("another version of Mortise wrote this record; replay it with that version");
  }
  const std::string kind = text_of(head, "kind"), name = text_of(head, "name");
  for (const Component& component : file.components) {
    const bool can_be_recorded = component.kind != PartKind::kDevice && component.kind != PartKind::kModel;
    if (can_be_recorded && kind_name(component.kind) == kind && component.name == name) return component;
  }
  fail("these are calls of the {} {}, but {} has no such component", quote(kind), quote(name), file.path.string());
}

// Returns how the result of a call differs from the recorded one, if it does.
std::optional<std::string> compare(const json& result, std::int64_t call, mortise_status status, const json& out) {
  if (read_number<std::int64_t>(member(result, "result"), "result") != call) {
    fail("the result of call {} is missing", call);
  }
  const auto was = read_number<mortise_status>(member(result, "status"), "status");
  if (was != status) return fmt::format("the status is {}, was {}", status_name(status), status_name(was));
  const json& output = member(result, "out");
  if (output == out) return std::nullopt;
  return first_difference(output, out);
}

CallReplay replay_lines(RecordLines& lines, const PluginFile& file) {
  const std::optional<json> head = lines.next();
  if (!head) fail("the record is empty: no pipeline opened the part while it was recorded");
  Replayed part(component_for(*head, file), file);
  CallReplay replay;
  while (const std::optional<json> line = lines.next()) {
    const auto number = read_number<std::int64_t>(member(*line, "call"), "call");
    if (number != replay.num_calls + 1) fail("call {} is missing", replay.num_calls + 1);
    const std::string function = text_of(*line, "function");
    const std::optional<json> result = lines.next();
    ++replay.num_calls;
    replay.ends_in_call = !result;
    const json was = result ? member(*result, "out") : json::object();
    std::optional<std::string> difference;
    try {
      const auto [status, out] = part.make(function, member(*line, "in"), was);
      if (result) difference = compare(*result, number, status, out);
    } catch (const conformance::CaseFailed& breach) {
      difference = breach.what();
    }
    if (!difference) continue;
    replay.difference = CallDifference{number, function, *difference};
    break;
  }
  return replay;
}

}  // namespace
}  // namespace abi_record

CallReplay replay_calls(std::istream& record, const std::string& name, const PluginFile& plugin) {
  abi_record::RecordLines lines(record, name);
  try {
    return abi_record::replay_lines(lines, plugin);
  } catch (const Error& error) {
    fail("{}: {}", lines.where(), error.what());
  }
}

CallReplay replay_calls(const std::filesystem::path& record, const std::filesystem::path& plugin) {
  const PluginFile& file = load_plugin_file(plugin);
  std::ifstream stream(record);
  if (!stream) fail("{}: is not a record that can be read; check the path", record.string());
  return replay_calls(stream, record.string(), file);
}

}  // namespace mortise
