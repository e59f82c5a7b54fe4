#include "assembly/part_set.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "assembly/another_model.hpp"
#include "assembly/checkpoint_service.hpp"
#include "assembly/memory_check.hpp"
#include "engine/verified_swap.hpp"
#include "error.hpp"
#include "execution/rank_group.hpp"
#include "execution/score_pass.hpp"
#include "mortise/ext/checkpoint.h"

namespace mortise {
namespace {

// If the KV cache is to fill the device: the memory that stays free for workspaces and captured graphs.
constexpr std::uint64_t kKeptFree = std::uint64_t{1} << 30, kKeptShare = 12;

StackParts stack_parts(const PipelineDescription& description, Placement placement = Placement::kInPlace) {
  return {description.model,
          description.attention,
          description.kv_cache.dtype,
          description.block_size,
          description.kv_cache.populate.value_or(false),
          placement == Placement::kBeside};
}

std::string id_of(const ModelFiles& files) {
  return fmt::format("{}; {}", files.checkpoint.fingerprint(), files.tokenizer.fingerprint());
}

using Stacks = std::vector<std::shared_ptr<ModelStack>>;

// Changes the sizes of all ranks' parts. If it throws an Error, all have the old sizes again, or have failed.
void resize_all(const Stacks& stacks, const mortise_activate_args& now, const mortise_activate_args& before) {
  for (std::size_t i = 0; i < stacks.size(); ++i) {
    try {
      stacks[i]->resize(now, before);
    } catch (const Error&) {
      for (std::size_t j = 0; j < i; ++j) stacks[j]->resize(before, now);
      throw;
    }
  }
}

const ExecutionLimits& execution_limits(const EngineLimits& limits) {
  return limits;
}

}  // namespace

struct PartSet::Resized {
  std::vector<std::shared_ptr<ModelStack>> stacks;  // empty: they do not change
  mortise_activate_args now, before;

  ~Resized() {
    try {
      resize_all(stacks, before, now);
    } catch (const Error& error) {  // the part that refused has failed and reports that at its next call
      spdlog::error("a swap cannot be undone: {}", error.what());
    }
  }
};

PartSet::PartSet(const PipelineDescription& description, std::shared_ptr<const ModelFiles> files, FileOpener open_draft)
    : description_(description) {
  open_devices();
  open_models(files);
  set_limits(nullptr);
  proposers_ = open_proposers(open_draft);
  set_draft_limits();
  open_scheduler();
  load_weights(stacks_);
  activate(nullptr, {}, Placement::kInPlace);
  tell_ranks();
  // waits for the hash of the files, so that no step shares the memory with the hashing
  files_id_ = id_of(*target().target()->files);
  numerics_id_ = make_numerics_id();
}

PartSet::PartSet(const PartSet& running, const PipelineDescription& description,
                 std::shared_ptr<const ModelFiles> files, FileOpener open_draft, const StepUse& use,
                 Placement placement)
    : description_(description) {
  const bool same_device = same_part(description_.device, running.description_.device);
  const bool same_model = same_device && files == nullptr;
  if (same_device) {
    devices_ = running.devices_;
  } else {
    open_devices();
  }
  if (placement == Placement::kBeside && std::max(world(), running.world()) > 1) {
    fail(ErrorCode::kConflict,
         "verify_steps compares parts on one device, but the pipeline has {} ranks; swap without verify_steps",
         std::max(world(), running.world()));
  }
  if (same_model) {
    for (const auto& stack : running.stacks_) {
      stacks_.push_back(
          std::make_shared<ModelStack>(*stack, stack_parts(description_, placement), description_.query()));
    }
  } else {
    open_models(files != nullptr ? files : running.target().target()->files);
  }
  use.step_meanwhile();
  set_limits(&running);
  if (same_model && running.proposers_->is_of(description_)) {
    proposers_ = running.proposers_;
  } else {
    proposers_ = open_proposers(open_draft);
    use.step_meanwhile();
  }
  set_draft_limits();
  const auto& kept_files = running.target().target()->files;
  files_id_ = target().target()->files == kept_files ? running.files_id_ : id_of(*target().target()->files);
  numerics_id_ = make_numerics_id();
  if (numerics_id_ != running.numerics_id_) {
    const std::string why = fmt::format(
        "these parts would give different tokens, which a swap does not allow: the numerics id is '{}' and would be "
        "'{}'; start another server for it",
        running.numerics_id_, numerics_id_);
    if (!same_part(description_.model, running.description_.model)) throw AnotherModelError(why);
    throw Error(why, ErrorCode::kConflict);
  }
  if (placement == Placement::kBeside) {
    check_same_sizes(running.limits_, limits_);
    check_second_cache(running);
  }
  const bool same_sizes = limits_.same_sizes(running.limits_);
  // Proposers and scheduler were activated for the serving set's sizes.
  if (!same_sizes && proposers_ == running.proposers_) proposers_ = open_proposers(open_draft);
  if (same_sizes && same_part(description_.scheduler, running.description_.scheduler)) {
    scheduler_ = running.scheduler_;
  } else {
    open_scheduler();
  }
  if (!same_model) load_weights(stacks_);
  activate(&running, use, placement);
}

PartSet::~PartSet() = default;

void PartSet::fit(const PartSet& running, const StepUse& use) {
  const bool shares_model = target().target() == running.target().target();
  if (!shares_model || execution_limits(limits_).same_sizes(running.limits_)) return;
  use.release_buffers();
  const mortise_activate_args now = batch_sizes(), before = running.batch_sizes();
  resize_all(stacks_, now, before);
  resized_ = std::make_unique<Resized>(stacks_, now, before);
}

void PartSet::keep() {
  if (resized_) resized_->stacks.clear();
}

void PartSet::open_devices() {
  const PartChoice& choice = description_.device.select(description_.query());
  const auto open = [&](std::int32_t rank, std::int32_t world) {
    CreateContext context;
    context.rank = rank;
    context.world = world;
    return std::make_shared<PartInstance>(*choice.component, choice.options, context);
  };
  devices_ = {open(0, 1)};
  const std::int32_t world = num_ranks_of(devices_.front()->active_part<mortise_device, mortise_device_table>());
  if (world > 1) {
    devices_.clear();
    for (std::int32_t rank = 0; rank < world; ++rank) devices_.push_back(open(rank, world));
  }
  // Models and attention allocate from the device, so the device is active before they are created.
  for (const auto& device : devices_) device->activate();
}

void PartSet::open_models(const std::shared_ptr<const ModelFiles>& files) {
  for (std::int32_t rank = 0; rank < world(); ++rank) {
    stacks_.push_back(std::make_shared<ModelStack>(devices_[static_cast<std::size_t>(rank)], files,
                                                   stack_parts(description_), description_.query(),
                                                   StackRank{rank, world()}));
  }
}

std::shared_ptr<ProposerSet> PartSet::open_proposers(FileOpener open_draft) const {
  return std::make_shared<ProposerSet>(description_, ProposerSet::Devices(devices_.begin(), devices_.end()),
                                       target().target(), target().kv_dtype(), std::move(open_draft));
}

void PartSet::tell_ranks() const {
  if (world() == 1) return;
  for (std::int32_t rank = 0; rank < world(); ++rank) {
    const ModelStack& stack = *stacks_[static_cast<std::size_t>(rank)];
    spdlog::info("{}: rank {} of {}: {:.2f} GiB of weights, {:.2f} GiB of KV cache", stack.parts().device.name, rank,
                 world(), gib(stack.weight_bytes()), gib(stack.kv_bytes()));
  }
}

bool PartSet::has_running_kv() const {
  return std::ranges::all_of(stacks_, [](const auto& stack) { return stack->has_running_kv(); });
}

std::uint64_t PartSet::kv_bytes_per_block() const {
  return target().kv_bytes_per_block() * static_cast<std::uint64_t>(world());
}

std::uint64_t PartSet::least_free_memory() const {
  std::uint64_t least = UINT64_MAX;
  for (const auto& stack : stacks_) least = std::min(least, free_device_memory(stack->parts().device));
  return least;
}

void PartSet::set_limits(const PartSet* running) {
  const ModelStack& target = this->target();
  const DevicePart& device = target.parts().device;
  limits_.max_num_seqs = description_.max_num_seqs;
  limits_.max_batched_tokens = description_.max_batched_tokens;
  limits_.max_model_len = target.dims().max_model_len;
  if (running != nullptr && limits_.max_model_len != running->limits_.max_model_len) {
    throw AnotherModelError(fmt::format("max_model_len is {} and would be {}, but clients have been told the old value",
                                        running->limits_.max_model_len, limits_.max_model_len));
  }
  limits_.block_size = description_.block_size;
  limits_.prefix_cache = description_.kv_cache.prefix_cache;
  limits_.rejection = description_.speculation.verify == Verify::kRejection;
  limits_.adaptive_lengths = description_.speculation.lengths == DraftLengths::kAdaptive;
  limits_.batch_expansion = description_.speculation.batch_expansion ||
                            (target.attention().component().capabilities & MORTISE_CAP_MULTI_QUERY) == 0;
  limits_.max_logit_rows = target.max_logit_rows(limits_.max_batched_tokens);
  const std::uint64_t per_block = target.kv_bytes_per_block();
  if (fills_device() && running != nullptr) {  // the running cache already fills the device
    const std::uint64_t padding = target.parts().graphs != nullptr ? 1 : 0;
    const std::uint64_t blocks = running->target().kv_bytes() / per_block;
    limits_.num_blocks = useful_blocks(blocks - std::min(blocks, padding));
  } else {
    limits_.num_blocks = useful_blocks(description_.kv_cache.memory_bytes / kv_bytes_per_block());
  }
  if (running != nullptr && target.parts().graphs != nullptr) limits_.padding_block = limits_.num_blocks;
  if (fills_device()) return;  // the free memory is known once the weights are loaded
  if (limits_.num_blocks == 0) {
    fail("{}: kv_cache.memory of {} bytes holds no block of {} tokens, which takes {} bytes; raise it",
         description_.where, description_.kv_cache.memory_bytes, description_.block_size, kv_bytes_per_block());
  }
  // Ranks of a device that uses host memory share it.
  const auto sharing = static_cast<std::uint64_t>(shares_host_memory(device) ? world() : 1);
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * per_block;
  check_memory(description_, kv_bytes * sharing, target.weight_bytes() * sharing, device_memory(device), device.name);
}

void PartSet::set_draft_limits() {
  for (const ActiveProposer& proposer : proposers_->active()) {
    limits_.max_drafts = std::max(limits_.max_drafts, proposer.max_tokens);
    limits_.max_paths = std::max(limits_.max_paths, proposer.max_paths);
  }
}

bool PartSet::fills_device() const {
  return description_.kv_cache.fills_device && !shares_host_memory(target().parts().device);
}

std::int32_t PartSet::useful_blocks(std::uint64_t blocks) const {
  return mortise::useful_blocks(description_, target().dims().max_model_len, blocks);
}

void PartSet::open_scheduler() {
  mortise_query query = description_.query();
  const std::string& config = target().checkpoint().config().json;
  query.model_config = {config.data(), config.size()};
  query.dims = &target().dims();
  query.kv_dtype = target().kv_dtype();
  const DevicePart& device = target().parts().device;
  CreateContext context;
  context.device = device.self;
  context.device_table = device.api;
  context.device_health = device.health;
  context.extensions = [](const char* id) -> const void* {
    return std::string_view(id) == MORTISE_EXT_CHECKPOINT ? checkpoint_service() : nullptr;
  };
  const PartChoice& choice = description_.scheduler.select(query);
  scheduler_ = std::make_shared<PartInstance>(*choice.component, choice.options, context);
}

// Returns the number of blocks that fit into the memory that weights and the models' buffers leave free.
std::int32_t PartSet::blocks_that_fill_device() {
  const DevicePart& device = target().parts().device;
  const std::uint64_t weights = target().weight_bytes(), free = least_free_memory();
  const std::uint64_t kept = std::max(kKeptFree, free / kKeptShare);
  const std::uint64_t taken = kept + proposers_->runners().fixed_kv_bytes();
  // A block holds KV of as many tokens for each draft model too.
  const double bytes = static_cast<double>(target().kv_bytes_per_block()) +
                       proposers_->runners().kv_bytes_per_target_token() * description_.block_size;
  const auto blocks = static_cast<double>(free - std::min(free, taken)) / bytes;
  const std::int32_t useful = useful_blocks(static_cast<std::uint64_t>(blocks));
  if (useful >= 2) return useful;
  fail(
      "{}: of the {:.1f} GiB of {}, {:.1f} GiB are free beside {:.1f} GiB of weights, and {:.1f} GiB of them are "
      "kept for workspaces: no KV block of {} bytes fits; use a smaller model or lower max_batched_tokens",
      description_.where, gib(device_memory(device)), device.name, gib(free), gib(weights), gib(kept),
      target().kv_bytes_per_block());
}

void PartSet::bind_attention(const std::function<void()>& give_up) {
  if (target().parts().graphs != nullptr) limits_.padding_block = limits_.num_blocks;
  try {
    for (const auto& stack : stacks_) stack->bind_kv(limits_.num_blocks, give_up);
  } catch (const Error& error) {
    const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * target().kv_bytes_per_block();
    fail("{}: {:.1f} GiB of KV cache beside {:.1f} GiB of weights: {}; {}", description_.where, gib(kv_bytes),
         gib(target().weight_bytes()), error.what(),
         fills_device() ? "kv_cache.memory = \"auto\" uses all free memory; set it to a smaller size"
                        : "lower kv_cache.memory");
  }
}

// A second attention beside the serving one has a cache of the same size. This is checked first, because the system
// ends a process that takes more memory than there is.
void PartSet::check_second_cache(const PartSet& running) const {
  if (&target().attention() == &running.target().attention()) return;
  const std::uint64_t kv_bytes = static_cast<std::uint64_t>(limits_.num_blocks) * target().kv_bytes_per_block();
  const DevicePart& device = target().parts().device;
  const bool shares_model = target().target() == running.target().target();
  const std::uint64_t needed = kv_bytes + (shares_model ? 0 : target().weight_bytes());
  const std::uint64_t free = free_device_memory(device);
  if (needed <= free) return;
  fail(ErrorCode::kConflict,
       "verify_steps needs a second KV cache of {:.1f} GiB{} beside the one that runs, and {} has {:.1f} GiB free; "
       "lower kv_cache.memory first, or swap without verify_steps",
       gib(kv_bytes), shares_model ? "" : fmt::format(" and {:.1f} GiB of weights", gib(target().weight_bytes())),
       device.name, gib(free));
}

// Models are activated first: the memory that their buffers leave may become the KV cache.
void PartSet::activate(const PartSet* running, const StepUse& use, Placement placement) {
  RunnerService& runners = proposers_->runners();
  const bool new_proposers = running == nullptr || proposers_ != running->proposers_;
  if (running == nullptr && fills_device()) {
    limits_.num_blocks = useful_blocks(least_free_memory() / target().kv_bytes_per_block());
  }
  for (const auto& stack : stacks_) stack->activate_model(batch_sizes());
  use.step_meanwhile();
  if (new_proposers) runners.activate_models(use.step_meanwhile);
  if (running == nullptr && fills_device()) limits_.num_blocks = blocks_that_fill_device();
  bind_attention(use.give_up_kv);
  if (running != nullptr && placement == Placement::kInPlace) fit(*running, use);
  use.step_meanwhile();
  for (const auto& stack : stacks_) stack->activate_attention(batch_sizes());
  use.step_meanwhile();
  if (new_proposers) {
    runners.activate_kv({limits_.num_blocks, limits_.block_size, limits_.rejection}, use.step_meanwhile);
  }
  if (!scheduler_->active()) scheduler_->activate(sizes());
  if (new_proposers) proposers_->activate(sizes());
  use.step_meanwhile();
}

mortise_activate_args PartSet::sizes() const {
  mortise_activate_args args{};
  args.struct_size = sizeof args;
  args.max_num_seqs = limits_.max_num_seqs;
  args.max_batched_tokens = limits_.max_batched_tokens;
  args.max_logit_rows = std::max(limits_.max_logit_rows, std::min(limits_.max_batched_tokens, ScorePass::kBlockRows));
  args.max_model_len = limits_.max_model_len;
  args.block_size = limits_.block_size;
  args.num_blocks = limits_.num_blocks;
  return args;
}

// Sizes for the parts that see batches. In a batch a sequence may be several runs, and padding adds sequences.
mortise_activate_args PartSet::batch_sizes() const {
  mortise_activate_args args = sizes();
  args.max_num_seqs = limits_.max_batch_seqs();
  return args;
}

Parts PartSet::parts() const {
  Parts parts;
  static_cast<ShardParts&>(parts) = parts_of(stacks_.front());
  for (std::size_t rank = 1; rank < stacks_.size(); ++rank) parts.further_ranks.push_back(parts_of(stacks_[rank]));
  static_cast<SchedulerPart&>(parts.scheduler) = scheduler_->active_part<mortise_scheduler, mortise_scheduler_table>();
  parts.scheduler.owner = scheduler_;
  for (const ActiveProposer& proposer : proposers_->active()) parts.proposers.push_back(proposer);
  for (ActiveProposer& proposer : parts.proposers) proposer.owner = proposers_;
  return parts;
}

std::vector<const Component*> PartSet::components() const {
  std::vector<const Component*> list = {&devices_.front()->component(), &target().model().component(),
                                        &target().attention().component(), &scheduler_->component()};
  for (const Component* component : proposers_->components()) list.push_back(component);
  return list;
}

std::string PartSet::make_numerics_id() const {
  const mortise_model_dims& dims = target().dims();
  const auto id_of = [&](std::int32_t dtype) {
    const char* id = numerics_id_of(target().parts().device, dtype);
    return std::string(id == nullptr ? "unknown" : id);
  };
  std::string device = id_of(dims.dtype);
  const std::string attention = target().attention().component().numerics_id_on(device);
  if (dims.weight_bits != 0) device += fmt::format(" with {}, {}", id_of(weight_class(dims)), weight_format(dims));
  return fmt::format("{}; attention {}; model {}; {}; kv {}{}", device, attention, target().model().component().name,
                     files_id_, dtype_name(target().kv_dtype()), proposers_->rejection_id());
}

}  // namespace mortise
