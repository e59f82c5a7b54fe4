// tests/unit/runner/runner_fixture.hpp: a runner as a proposer sees it, over small random models and the real parts,
// without an engine.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "loader/catalog.hpp"
#include "mix.hpp"
#include "pipeline/pipeline_script.hpp"
#include "random_model.hpp"
#include "runner/runner_service.hpp"
#include "temp_folder.hpp"

namespace mortise::test {

struct RigOptions {
  std::string device = "cpu";
  int block_size = 16;
  int max_num_seqs = 8;
  int max_batched_tokens = 2048;
  int target_blocks = 4096;
  bool prefix_cache = true;
  bool activate = true;
  bool rejection = false;
  std::string kv_memory = "'auto'", attention = "{}", devices = "[0]";  // JSON with single quotes
  std::optional<std::string> path = {};  // of the draft model; none: the target is its own
};

// A runner as a proposer sees it, without an engine.
class Rig {
 public:
  Rig(const std::filesystem::path& model, const RigOptions& options)
      : description_(describe(model, options)),
        device_(std::make_shared<PartInstance>(*description_.device.select(description_.query()).component,
                                               description_.device.select(description_.query()).options,
                                               CreateContext{})),
        target_(open_target(model)),
        service_({device_}, description_, target_->target(), ModelFiles::open),
        table_(*static_cast<const mortise_runner_table*>(service_.extension(MORTISE_EXT_RUNNER))) {
    std::string text = fmt::format("{{'kv_memory': {}, 'attention': {}, 'devices': {}}}", options.kv_memory,
                                   options.attention, options.devices);
    std::ranges::replace(text, '\'', '"');
    const std::string path = options.path.value_or(model.string());
    mortise_runner_open_args args{};
    args.struct_size = sizeof args;
    args.path = {path.data(), path.size()};
    args.options = {text.data(), text.size()};
    mortise_error error = empty_error();
    if (table_.open(&table_, &args, &runner_, &error) != MORTISE_OK) throw std::runtime_error(error.message);
    if (!options.activate) return;
    service_.activate_models([] {});
    service_.activate_kv({options.target_blocks, options.block_size, options.rejection}, [] {});
  }
  ~Rig() {
    if (runner_ != nullptr) table_.close(runner_);
  }

  std::int32_t vocab_size() const { return table_.dims(runner_)->vocab_size; }

  mortise_status update(std::uint64_t id, std::int32_t begin, const std::vector<std::int32_t>& tokens,
                        std::uint32_t flags = 0, std::int32_t first_offset = 0) {
    const std::int32_t offsets[] = {first_offset, static_cast<std::int32_t>(tokens.size())};
    mortise_runner_tokens args{};
    args.struct_size = sizeof args;
    args.flags = flags;
    args.num_seqs = 1;
    args.seq_ids = &id;
    args.begins = &begin;
    args.offsets = offsets;
    args.tokens = tokens.data();
    return table_.update(runner_, &args, &(error_ = empty_error()));
  }
  // The tokens that were drawn, `choices` of each sequence; their logits are in logits(). A fork has its origin's key.
  std::vector<std::int32_t> step(const std::vector<std::uint64_t>& ids, float temperature = 0,
                                 std::int32_t choices = 1) {
    std::vector<std::uint64_t> keys;
    for (const std::uint64_t id : ids) keys.push_back(id % 1000 * 7919);
    const std::vector<float> temperatures(ids.size(), temperature);
    std::vector<std::int32_t> sampled(ids.size() * static_cast<std::size_t>(choices), -2);
    logits_.assign(ids.size() * static_cast<std::size_t>(vocab_size()), -1);
    mortise_runner_step args{};
    args.struct_size = sizeof args;
    args.num_seqs = static_cast<std::int32_t>(ids.size());
    args.num_choices = choices;
    args.seq_ids = ids.data();
    args.keys = keys.data();
    args.temperatures = temperatures.data();
    args.sampled = sampled.data();
    args.logits = logits_.data();
    status_ = table_.step(runner_, &args, &(error_ = empty_error()));
    return sampled;
  }
  void end(std::uint64_t id) { table_.end(runner_, &id, 1); }
  mortise_status fork(std::uint64_t from, std::uint64_t to, std::int32_t token) {
    mortise_runner_forks args{};
    args.struct_size = sizeof args;
    args.num_forks = 1;
    args.from_ids = &from;
    args.to_ids = &to;
    args.tokens = &token;
    return table_.fork(runner_, &args, &(error_ = empty_error()));
  }

  std::span<const float> logits(std::size_t i) const {
    const auto width = static_cast<std::size_t>(vocab_size());
    return std::span(logits_).subspan(i * width, width);
  }
  mortise_status status() const { return status_; }
  std::string error() const { return error_.message; }
  RunnerStats stats() const { return service_.stats().front(); }

 private:
  static PipelineDescription describe(const std::filesystem::path& model, const RigOptions& options) {
    const PluginCatalog catalog({MORTISE_BINARY_DIR, MORTISE_BINARY_DIR "/tests/property/remote"});
    const std::string script = fmt::format(
        "return pipeline {{ device = {} {{ threads = 2 }}, model = {} {{ path = '{}' }}, attention = paged {{ "
        "block_size = {} }}, scheduler = fcfs {{ max_num_seqs = {}, max_batched_tokens = {} }}, kv_cache = {{ "
        "prefix_cache = {} }} }}",
        options.device, model_plugin(model), model.string(), options.block_size, options.max_num_seqs,
        options.max_batched_tokens, options.prefix_cache);
    return PipelineScript::from_text(script, "runner", "/", catalog).pipelines().front();
  }
  std::unique_ptr<ModelStack> open_target(const std::filesystem::path& model) {
    device_->activate();
    return std::make_unique<ModelStack>(
        device_, std::make_shared<const ModelFiles>(ModelFiles::open(model)),
        StackParts{description_.model, description_.attention, KvDtype::kAuto, description_.block_size},
        description_.query());
  }

  PipelineDescription description_;
  std::shared_ptr<PartInstance> device_;
  std::unique_ptr<ModelStack> target_;
  RunnerService service_;
  const mortise_runner_table& table_;
  mortise_runner* runner_ = nullptr;
  std::vector<float> logits_;
  mortise_error error_{};
  mortise_status status_ = MORTISE_OK;
};

// Random models of every architecture, written once for all cases.
class RunnerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_.emplace();
    models_ = write_random_models(folder_->path());
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::vector<std::int32_t> draw(std::mt19937& random, std::size_t count) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random() % 4096);
    return tokens;
  }

  static inline std::optional<TempFolder> folder_;
  static inline std::vector<RandomModel> models_;
};

inline constexpr std::uint64_t kFork =
    (std::uint64_t{1} << 63) / 1000 * 1000 + 1000;  // + id, or + 1000 i + id: a fork of that sequence

}  // namespace mortise::test
