#include "runner/runner_service.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <string_view>

#include "abi_check/checked_component.hpp"
#include "error.hpp"
#include "loader/catalog.hpp"
#include "runner/runner_options.hpp"

namespace mortise {

struct RunnerService::Table : mortise_runner_table {
  RunnerService* service;
};

struct RunnerService::OpenRunner {
  RunnerService* service;
  std::optional<std::uint64_t> kv_bytes;  // nullopt: as many tokens as the target's cache
  std::unique_ptr<Runner> runner;
};

namespace {

// The most forks of a sequence in one pass. More would reserve memory for batches that are too large to be useful.
constexpr std::int32_t kMaxForks = 15;

// Runs `body` and turns exceptions into a status: the part's own status if a part failed, so that a caller learns of
// lack of memory; otherwise `code`.
template <typename Body>
mortise_status guarded(mortise_error* error, const char* where, mortise_status code, Body&& body) noexcept {
  try {
    body();
    return MORTISE_OK;
  } catch (const std::exception& exception) {
    if (const auto* part = dynamic_cast<const PartError*>(&exception)) code = part->status();
    if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) code = MORTISE_RESOURCE_EXHAUSTED;
    if (error != nullptr && error->struct_size >= sizeof(mortise_error)) {
      error->code = code;
      const auto copy = [](char* to, std::size_t size, const char* from) {
        fmt::format_to_n(to, size - 1, "{}", from).out[0] = '\0';
      };
      copy(error->where, sizeof error->where, where);
      copy(error->message, sizeof error->message, exception.what());
    }
    return code;
  }
}

}  // namespace

RunnerService::RunnerService(Devices devices, PipelineDescription description, std::shared_ptr<const OpenModel> target,
                             FileOpener open_files)
    : devices_(std::move(devices)),
      description_(std::move(description)),
      target_(std::move(target)),
      open_files_(std::move(open_files)),
      table_(std::make_unique<Table>()) {
  table_->struct_size = sizeof(mortise_runner_table);
  table_->service = this;
  table_->open = open_runner;
  table_->close = close_runner;
  table_->dims = [](mortise_runner* runner) { return &runner_of(runner).stack().dims(); };
  table_->update = [](mortise_runner* runner, const mortise_runner_tokens* tokens, mortise_error* error) {
    return guarded(error, "update", MORTISE_INVALID_ARGUMENT, [&] { runner_of(runner).update(*tokens); });
  };
  table_->step = [](mortise_runner* runner, const mortise_runner_step* step, mortise_error* error) {
    const mortise_status status =
        guarded(error, "step", MORTISE_INVALID_ARGUMENT, [&] { runner_of(runner).begin_step(*step); });
    if (status != MORTISE_OK) return status;
    return guarded(error, "step", MORTISE_INTERNAL, [&] { runner_of(runner).run_step(*step); });
  };
  table_->end = [](mortise_runner* runner, const std::uint64_t* seq_ids, std::int32_t num_seqs) {
    guarded(nullptr, "end", MORTISE_INTERNAL, [&] {
      runner_of(runner).end({seq_ids, static_cast<std::size_t>(num_seqs)});
    });
  };
  table_->fork = [](mortise_runner* runner, const mortise_runner_forks* forks, mortise_error* error) {
    return guarded(error, "fork", MORTISE_INVALID_ARGUMENT, [&] { runner_of(runner).fork(*forks); });
  };
}

RunnerService::~RunnerService() = default;

const void* RunnerService::extension(const char* id) const {
  return std::string_view(id) == MORTISE_EXT_RUNNER ? static_cast<const mortise_runner_table*>(table_.get()) : nullptr;
}

Runner& RunnerService::runner_of(mortise_runner* runner) {
  return *reinterpret_cast<OpenRunner*>(runner)->runner;
}

mortise_status RunnerService::open_runner(const mortise_runner_table* table, const mortise_runner_open_args* args,
                                          mortise_runner** runner, mortise_error* error) {
  *runner = nullptr;
  return guarded(error, "runner", MORTISE_FAILED_PRECONDITION, [&] {
    *runner = reinterpret_cast<mortise_runner*>(&static_cast<const Table*>(table)->service->open(*args));
  });
}

void RunnerService::close_runner(mortise_runner* runner) {
  RunnerService& service = *reinterpret_cast<OpenRunner*>(runner)->service;
  std::erase_if(service.runners_,
                [&](const auto& entry) { return reinterpret_cast<mortise_runner*>(entry.get()) == runner; });
}

RunnerService::OpenRunner& RunnerService::open(const mortise_runner_open_args& args) {
  const std::string path(args.path.data, static_cast<std::size_t>(args.path.size));
  const std::string text(args.options.data, static_cast<std::size_t>(args.options.size));
  if (path.empty()) fail("the draft model has no path: give the folder of its checkpoint");
  const nlohmann::json options = complete_runner_options(text);
  std::optional<std::uint64_t> kv_bytes;
  if (options["kv_memory"] != "auto") {
    kv_bytes = parse_bytes(options["kv_memory"]);
    if (!kv_bytes) {
      fail("option 'kv_memory' is {}; expected \"auto\", bytes, or a text such as \"512MiB\" with KiB, MiB or GiB",
           show_value(options["kv_memory"]));
    }
  }
  std::vector<std::shared_ptr<ModelStack>> stacks = open_stacks(path, options);
  load_weights(stacks);
  RunnerSizes sizes{};
  sizes.max_num_seqs = description_.max_num_seqs * (1 + std::clamp(args.max_forks, 0, kMaxForks));
  sizes.max_batched_tokens = description_.max_batched_tokens;
  sizes.prefix_cache = description_.kv_cache.prefix_cache;
  sizes.target_vocab_size = target_->dims.vocab_size;
  auto entry =
      std::make_unique<OpenRunner>(OpenRunner{this, kv_bytes, std::make_unique<Runner>(std::move(stacks), sizes)});
  if (target_pool_) {  // the pipeline is running already
    entry->runner->activate_model();
    activate_kv(*entry, [] {});
  }
  return *runners_.emplace_back(std::move(entry));
}

RunnerService::Devices RunnerService::chosen_devices(const nlohmann::json& ranks) const {
  Devices chosen;
  for (const auto rank : ranks.get<std::vector<std::size_t>>()) {
    if (rank >= devices_.size()) {
      fail("option 'devices' names rank {}, but the pipeline has {}, counted from 0", rank, devices_.size());
    }
    chosen.push_back(devices_[rank]);
  }
  return chosen;
}

std::vector<std::shared_ptr<ModelStack>> RunnerService::open_stacks(const std::string& path,
                                                                    const nlohmann::json& options) const {
  const Devices devices = chosen_devices(options["devices"]);
  auto files = std::make_shared<const ModelFiles>(open_files_(path));
  check_vocabulary(files->tokenizer, path);
  mortise_query query = description_.query();
  const std::string config = files->checkpoint.config().json;
  query.model_config = {config.data(), config.size()};
  const PartDescription model = model_for(path, options["dtype"], query);
  const PartDescription attention = attention_with(options["attention"]);
  // An int8 cache of the target makes the draft's int8, too. With a float type, the draft model's own type is used.
  const KvDtype kv_dtype = in_bytes(description_.kv_cache.dtype) ? description_.kv_cache.dtype : KvDtype::kAuto;
  const std::int32_t block_size = attention.choices.front().options.value("block_size", description_.block_size);
  const bool populate = description_.kv_cache.populate.value_or(false);
  std::vector<std::shared_ptr<ModelStack>> stacks;
  for (const auto& device : devices) {
    const StackRank rank{static_cast<std::int32_t>(stacks.size()), static_cast<std::int32_t>(devices.size())};
    stacks.push_back(std::make_shared<ModelStack>(
        device, files, StackParts{model, attention, kv_dtype, block_size, populate}, query, rank));
  }
  return stacks;
}

// The plugin of the pipeline's model if it accepts the checkpoint, otherwise any installed one that does.
PartDescription RunnerService::model_for(const std::string& path, const std::string& dtype,
                                         const mortise_query& query) const {
  std::vector<const Component*> components;
  for (const PartChoice& choice : description_.model.choices) components.push_back(choice.component);
  const auto takes = [&](const Component* component) { return !component->refusal(query); };
  if (std::ranges::none_of(components, takes)) {
    for (const PluginFile* file : PluginCatalog(description_.plugin_folders).list().files) {
      for (const Component& component : file->components) {
        if (component.kind != PartKind::kModel) continue;
        components.push_back(description_.checked ? &checked_component(component) : &component);
      }
    }
  }
  nlohmann::json options = {{"path", path}};
  if (dtype != "auto") options["dtype"] = dtype;  // a model of others need not have the option
  return make_part(components, description_.model.name, options, {}, "");
}

PartDescription RunnerService::attention_with(const nlohmann::json& options) const {
  PartDescription part = description_.attention;
  for (PartChoice& choice : part.choices) {
    nlohmann::json own = choice.options;
    own.update(options);
    choice.options = choice.component->schema.complete(own, choice.component->label());
  }
  return part;
}

void RunnerService::check_vocabulary(const Tokenizer& draft, const std::string& path) const {
  const Tokenizer& target = target_->files->tokenizer;
  const std::string other = target_->files->checkpoint.path().string();
  constexpr const char* kAdvice =
      "drafts would be different words; use a draft model that was made with the target's tokenizer";
  if (draft.vocab_size() != target.vocab_size()) {
    fail("the tokenizer of the draft model in {} has {} tokens, the target's in {} has {}: {}", path,
         draft.vocab_size(), other, target.vocab_size(), kAdvice);
  }
  for (std::size_t i = 0; i < target.vocab_size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    if (draft.token(id) == target.token(id)) continue;
    fail("token {} is {} in the draft model's tokenizer in {} and {} in the target's in {}, of {} tokens each: {}", id,
         show_value(draft.token(id).value_or("")), path, show_value(target.token(id).value_or("")), other,
         target.vocab_size(), kAdvice);
  }
}

void RunnerService::activate_models(const std::function<void()>& step_meanwhile) {
  for (const auto& entry : runners_) {
    entry->runner->activate_model();
    step_meanwhile();
  }
}

std::uint64_t RunnerService::fixed_kv_bytes() const {
  std::uint64_t sum = 0;
  for (const auto& entry : runners_) sum += entry->kv_bytes.value_or(0) / entry->runner->world();
  return sum;
}

double RunnerService::kv_bytes_per_target_token() const {
  double sum = 0;
  for (const auto& entry : runners_) {
    const ModelStack& stack = entry->runner->stack();
    if (!entry->kv_bytes) sum += static_cast<double>(stack.kv_bytes_per_block()) / stack.block_size();
  }
  return sum;
}

void RunnerService::activate_kv(const TargetPool& target, const std::function<void()>& step_meanwhile) {
  target_pool_ = target;
  for (const auto& entry : runners_) activate_kv(*entry, step_meanwhile);
}

void RunnerService::activate_kv(OpenRunner& entry, const std::function<void()>& step_meanwhile) const {
  const ModelStack& stack = entry.runner->stack();
  const std::int64_t tokens = std::int64_t{target_pool_->num_blocks} * target_pool_->block_size;
  // Where a full pool would change tokens, it gets room for everything that a sequence needs beyond its tokens: the
  // rest of its last block, and the block that new sequences leave to it (RunnerKv).
  const std::int64_t spare = target_pool_->rejection ? 2 * std::int64_t{description_.max_num_seqs} : 0;
  const std::int64_t wanted = (tokens + stack.block_size() - 1) / stack.block_size() + spare;
  const std::uint64_t world = entry.runner->world(), block_bytes = stack.kv_bytes_per_block() * world;
  const std::int64_t blocks = entry.kv_bytes ? static_cast<std::int64_t>(*entry.kv_bytes / block_bytes) : wanted;
  const std::string path = stack.checkpoint().path().string();
  if (blocks == 0) {
    fail("kv_memory of {} bytes holds no block of {} tokens of the draft model in {}, which takes {} bytes; raise it",
         *entry.kv_bytes, stack.block_size(), path, block_bytes);
  }
  if (target_pool_->rejection && blocks < wanted) {
    fail(
        "kv_memory of {} bytes holds {} tokens of the draft model in {}, and beside the target's KV cache of {} tokens "
        "it must hold {}: with verify = \"rejection\" the tokens of a seed would otherwise depend on the other "
        "requests; raise kv_memory to {} bytes or leave it out",
        *entry.kv_bytes, blocks * stack.block_size(), path, tokens, wanted * stack.block_size(),
        static_cast<std::uint64_t>(wanted) * block_bytes);
  }
  const std::uint64_t bytes = static_cast<std::uint64_t>(blocks) * block_bytes;
  const std::uint64_t memory = device_memory(stack.parts().device);
  if (bytes / (shares_host_memory(stack.parts().device) ? 1 : world) > memory || blocks >= INT32_MAX) {
    fail("kv_memory of {} bytes for the draft model in {} does not fit the {} bytes of memory of {}; lower it", bytes,
         path, memory, stack.parts().device.name);
  }
  try {
    entry.runner->activate_kv(static_cast<std::int32_t>(blocks), step_meanwhile);
  } catch (const Error& error) {
    fail("{} bytes of KV cache for the draft model in {}: {}; lower the proposer's kv_memory", bytes, path,
         error.what());
  }
}

std::vector<RunnerStats> RunnerService::stats() const {
  std::vector<RunnerStats> stats;
  for (const auto& entry : runners_) stats.push_back(entry->runner->stats());
  return stats;
}

}  // namespace mortise
