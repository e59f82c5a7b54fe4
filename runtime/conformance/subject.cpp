#include "conformance/subject.hpp"

#include <dlfcn.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "environment.hpp"
#include "execution/weight_reader.hpp"
#include "loader/catalog.hpp"
#include "loader/host_services.hpp"
#include "loader/private_copy.hpp"
#include "mortise/attention.h"
#include "mortise/model.h"
#include "mortise/proposer.h"

namespace mortise::conformance {

mortise_activate_args usual_sizes() {
  mortise_activate_args sizes{};
  sizes.struct_size = sizeof sizes;
  sizes.max_num_seqs = 64;
  sizes.max_batched_tokens = 512;
  sizes.max_logit_rows = 64;
  sizes.max_model_len = 4096;
  sizes.block_size = 16;
  sizes.num_blocks = 1024;
  return sizes;
}

Subject::Subject(const CheckOptions& check, std::string component, const char* case_name)
    : check_(check),
      component_(std::move(component)),
      random_(XXH3_64bits_withSeed(case_name, std::strlen(case_name), check.seed)),
      dims_(AttentionShape().dims()) {}

const PluginFile& Subject::file() {
  return load_plugin_file(check_.file);
}

const Component& Subject::component() {
  for (const Component& component : file().components) {
    if (component.label() == component_) return component;
  }
  throw CaseFailed(fmt::format("the file no longer describes the {}", component_));
}

std::vector<char> Subject::bytes() const {
  std::ifstream file(path(), std::ios::binary);
  expect(file.good(), "the file cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

decltype(mortise_plugin_entry_v0)* Subject::load_copy() const {
  const PrivateCopy copy(bytes(), path().stem().string());
  void* const library = ::dlopen(copy.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  expect(library != nullptr, "a copy of the file cannot be loaded: {}", library == nullptr ? ::dlerror() : "");
  return reinterpret_cast<decltype(mortise_plugin_entry_v0)*>(::dlsym(library, MORTISE_PLUGIN_ENTRY_NAME));
}

mortise_entry_args entry_args() {
  return {sizeof(mortise_entry_args), 0, MORTISE_ABI_MINOR, MORTISE_ABI_OLDEST_MINOR, "mortise", kVersion};
}

nlohmann::json Subject::options() {
  const Component& subject = component();
  nlohmann::json given = check_.options;
  std::vector<const Option*> missing;
  for (const Option& option : subject.schema.options()) {
    if (option.required && !given.contains(option.name)) missing.push_back(&option);
  }
  if (missing.size() == 1 && is_path_of_a_draft_model(*missing[0])) {
    given[missing[0]->name] = environment::temporary_folder();
  } else if (!missing.empty()) {
    throw NotApplicable(fmt::format("the option '{}' has no default; give it with --options", missing[0]->name));
  }
  return subject.schema.complete(given, subject.label());
}

// Returns whether the option is the path of a draft model: whether the part opens a runner with it. The suite's runners
// accept any path, so any folder is good enough.
bool Subject::is_path_of_a_draft_model(const Option& option) {
  if (component().kind != PartKind::kProposer || !option.is_path) return false;
  if (!takes_any_path_) {
    PartSetup setup;
    setup.options = check_.options;
    setup.options[option.name] = environment::temporary_folder();
    setup.options = component().schema.complete(setup.options, component().label());
    Part trial(component(), std::move(setup));
    if (trial.created().ok()) bind(trial);
    takes_any_path_ = trial.runners().was_asked_for(environment::temporary_folder());
  }
  return *takes_any_path_;
}

PartSetup Subject::setup() {
  PartSetup setup;
  setup.options = options();
  const bool is_model = component().kind == PartKind::kModel;
  if (is_model) setup.model_config = checkpoint().config().json;
  if (is_model || component().kind == PartKind::kAttention) {
    setup.device = device().handle<mortise_device>();
    setup.device_table = device().table<mortise_device_table>();
  }
  return setup;
}

const Checkpoint& Subject::checkpoint() {
  if (checkpoint_) return *checkpoint_;
  const nlohmann::json given = options();
  if (!given.contains("path")) throw NotApplicable("it has no option 'path', which names a checkpoint");
  return checkpoint_.emplace(Checkpoint::open(given["path"].get<std::string>()));
}

mortise_query Subject::query_for_device(const char* name) {
  mortise_query query{};
  query.struct_size = sizeof query;
  query.device = name;
  if (component().kind == PartKind::kModel) {
    const std::string& config = checkpoint().config().json;
    query.model_config = {config.data(), config.size()};
    return query;
  }
  query.dims = &dims_;
  query.kv_dtype = MORTISE_BF16;
  query.block_size = usual_sizes().block_size;
  return query;
}

const PartInstance& Subject::device() {
  if (component().kind == PartKind::kModel)
    checkpoint();  // first, so that an unusable folder is not blamed on a device
  std::string reasons;
  for (const char* name : {"cpu", "cuda"}) {
    if (device_ != nullptr) break;
    try {
      if (const auto reason = component().refusal(query_for_device(name))) fail("{}", *reason);
      const Component& chosen =
          PluginCatalog::standard().select(PartKind::kDevice, name, mortise_query{sizeof(mortise_query)});
      auto opened = std::make_unique<PartInstance>(
          chosen, chosen.schema.complete(nlohmann::json::object(), chosen.label()), CreateContext{});
      opened->activate(usual_sizes());
      device_ = std::move(opened);
    } catch (const Error& error) {
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", name, error.what());
    }
  }
  if (device_ == nullptr) throw NotApplicable("it supports no device: " + reasons);
  return *device_;
}

namespace {

// Checks that `function` succeeded. A part that fails because the suite lacks a host extension is not at fault: the
// case then does not apply.
void expect_started(const Part& part, const char* function, const Answer& answer) {
  const std::string missing = part.host().missing_extension();
  if (!answer.ok() && !missing.empty()) {
    throw NotApplicable(fmt::format("it needs {}, which the suite does not offer: {}", missing, answer.text()));
  }
  expect(answer.ok(), "{} fails: {}", function, answer.text());
}

}  // namespace

std::unique_ptr<Part> Subject::make(PartSetup setup) {
  auto part = std::make_unique<Part>(component(), std::move(setup));
  expect_started(*part, "create", part->created());
  return part;
}

std::unique_ptr<Part> Subject::make_active(PartSetup setup) {
  auto part = make(std::move(setup));
  start(*part);
  return part;
}

Answer Subject::bind_attention(Part& part) {
  const auto& table = part.table<mortise_attention_table>();
  auto* const self = part.handle<mortise_attention>();
  mortise_kv_layout layout{};
  layout.struct_size = sizeof layout;
  const mortise_activate_args sizes = usual_sizes();
  part.perform("kv_layout", [&](mortise_error* error) {
    return table.kv_layout(self, &dims_, MORTISE_BF16, sizes.block_size, &layout, error);
  });
  expect(layout.bytes_per_block > 0, "kv_layout says that a block has 0 bytes");
  mortise_attention_bind_args args{};
  args.struct_size = sizeof args;
  args.dims = &dims_;
  args.kv_dtype = MORTISE_BF16;
  args.block_size = sizes.block_size;
  args.num_blocks = sizes.num_blocks;
  args.kv_bytes = layout.bytes_per_block * static_cast<std::uint64_t>(sizes.num_blocks);
  if (kv_ == nullptr) {
    device().perform("allocate", [&](mortise_error* error) {
      return device().table<mortise_device_table>()->allocate(device().handle<mortise_device>(), args.kv_bytes, &kv_,
                                                              error);
    });
  }
  args.kv = kv_;
  return part.call("bind", [&](mortise_error* error) { return table.bind(self, &args, error); });
}

Answer Subject::load_model(Part& part) {
  WeightReader weights(checkpoint());
  const mortise_weight_reader reader = weights.abi();
  return part.call("load", [&](mortise_error* error) {
    return part.table<mortise_model_table>().load(part.handle<mortise_model>(), &reader, error);
  });
}

Answer Subject::bind(Part& part) {
  if (component().kind == PartKind::kModel) return load_model(part);
  if (component().kind == PartKind::kAttention) return bind_attention(part);
  if (component().kind != PartKind::kProposer) return {};
  mortise_proposer_bind_args args{};
  args.struct_size = sizeof args;
  args.target = &dims_;
  args.vocab_hash = 42;
  return part.call("bind", [&](mortise_error* error) {
    return part.table<mortise_proposer_table>().bind(part.handle<mortise_proposer>(), &args, error);
  });
}

void Subject::start(Part& part) {
  expect_started(part, "bind", bind(part));
  const Answer answer = part.activate(usual_sizes());
  expect(answer.ok(), "activate fails: {}", answer.text());
}

}  // namespace mortise::conformance
