// The runner against itself: whatever was accepted, rejected, forgotten, shared or cut into passes before, the logits
// of a step are bit for bit those of a runner that computes the sequence from its first token on. On the CPU, and on
// the device whose memory the host cannot touch (remote/README.md).
// Covers: runtime/runner/{runner,runner_sequence,runner_service}
#include "runner/runner_service.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <bit>
#include <map>
#include <optional>
#include <random>

#include "loader/catalog.hpp"
#include "mix.hpp"
#include "pipeline/pipeline_script.hpp"
#include "random_model.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;

struct RigOptions {
  std::string device = "cpu";
  int block_size = 16;
  int max_num_seqs = 8;
  int max_batched_tokens = 2048;
  int target_blocks = 4096;
  bool prefix_cache = true;
  bool activate = true;
  bool rejection = false;
  std::string kv_memory = "'auto'", attention = "{}";  // JSON with single quotes
  std::optional<std::string> path = {};                // of the draft model; none: the target is its own
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
        service_(device_, description_, target_->target(), ModelFiles::open),
        table_(*static_cast<const mortise_runner_table*>(service_.extension(MORTISE_EXT_RUNNER))) {
    std::string text = fmt::format("{{'kv_memory': {}, 'attention': {}}}", options.kv_memory, options.attention);
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
                        std::uint32_t flags = 0) {
    const std::int32_t offsets[] = {0, static_cast<std::int32_t>(tokens.size())};
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
    device_->activate({});
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

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(a, b, {}, std::bit_cast<std::uint32_t, float>, std::bit_cast<std::uint32_t, float>);
}

// Sequences that come, draft, get some drafts accepted and end, as the target of a proposer would have it.
struct Life {
  std::vector<std::int32_t> tokens;  // committed
  std::int32_t told = 0;             // of them the runner knows
};

void live(Rig& rig, Rig& fresh, std::mt19937& random, int rounds) {
  std::map<std::uint64_t, Life> lives;
  std::uint64_t next_id = 1;
  std::vector<std::int32_t> shared;
  int compared = 0;
  for (int round = 0; round < rounds; ++round) {
    if (lives.size() < 6 || random() % 8 == 0) {  // a new one, often with a prefix that was there before
      Life life;
      if (random() % 2 == 0) life.tokens = shared;
      for (std::size_t n = 1 + random() % (random() % 4 == 0 ? 300 : 40); n > 0; --n) {
        life.tokens.push_back(static_cast<std::int32_t>(random() % 4096));
      }
      if (random() % 4 == 0) shared.assign(life.tokens.begin(), life.tokens.end());
      lives[next_id++] = std::move(life);
    }
    std::vector<std::uint64_t> ids;
    for (auto& [id, life] : lives) {
      const std::vector<std::int32_t> news(life.tokens.begin() + life.told, life.tokens.end());
      if (!news.empty()) {
        ASSERT_EQ(rig.update(id, life.told, news), MORTISE_OK) << rig.error();
      }
      life.told = static_cast<std::int32_t>(life.tokens.size());
      if (random() % 4 != 0 && ids.size() < 8) ids.push_back(id);
    }
    std::ranges::shuffle(ids, random);
    std::map<std::uint64_t, std::vector<std::int32_t>> drafts;
    for (std::size_t left = 1 + random() % 8; left > 0 && !ids.empty(); --left) {
      const std::vector<std::int32_t> sampled = rig.step(ids, 0.7f);
      ASSERT_EQ(rig.status(), MORTISE_OK) << rig.error();
      std::vector<std::uint64_t> going_on;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (sampled[i] < 0) continue;
        if (random() % 5 == 0) {
          std::vector<std::int32_t> all = lives[ids[i]].tokens;
          all.insert(all.end(), drafts[ids[i]].begin(), drafts[ids[i]].end());
          fresh.update(ids[i], 0, all);
          EXPECT_EQ(fresh.step({ids[i]}, 0.7f).front(), sampled[i]);
          EXPECT_TRUE(same_bits(rig.logits(i), fresh.logits(0))) << "round " << round << ", sequence " << ids[i];
          fresh.end(ids[i]);
          ++compared;
        }
        drafts[ids[i]].push_back(sampled[i]);
        if (random() % 6 != 0) going_on.push_back(ids[i]);
      }
      ids = going_on;
    }
    for (auto at = lives.begin(); at != lives.end();) {
      auto& [id, life] = *at;
      const std::vector<std::int32_t>& own = drafts[id];
      const std::size_t accepted = own.empty() ? 0 : random() % 3 != 0 ? own.size() : random() % own.size();
      life.tokens.insert(life.tokens.end(), own.begin(), own.begin() + static_cast<std::ptrdiff_t>(accepted));
      life.tokens.push_back(static_cast<std::int32_t>(random() % 4096));  // recovered, or the bonus token
      const bool over = random() % 12 == 0 || life.tokens.size() > 600;
      if (over) rig.end(id);
      at = over ? lives.erase(at) : std::next(at);
    }
  }
  for (const auto& [id, life] : lives) rig.end(id);
  EXPECT_GT(compared, rounds / 4);
  const RunnerStats stats = rig.stats();
  EXPECT_EQ(stats.num_sequences, 0u);
  EXPECT_EQ(stats.num_free_blocks + stats.num_cached_free_blocks, stats.num_blocks);  // less: a block is lost
}

class RunnerLives : public RunnerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RunnerLives, LogitsAreThoseOfComputingEverythingAnew) {
  std::uint64_t forgotten = 0, replays = 0;
  for (std::uint32_t mix = 0; mix < 10; ++mix) {
    std::mt19937 random(900 + mix);
    const RandomModel& model = models_[mix % models_.size()];
    RigOptions options;
    options.device = GetParam();
    options.block_size = mix % 2 == 0 ? 16 : 32;
    constexpr int kBudgets[] = {2048, 17, 64};
    options.max_batched_tokens = kBudgets[mix % 3];
    options.max_num_seqs = mix % 4 == 3 ? 3 : 8;
    options.prefix_cache = mix % 5 != 4;
    options.target_blocks = mix % 2 == 0 ? 4096 : 40;  // 640 tokens, for up to 6 sequences of up to 300 and more
    Rig rig(model.folder, options);
    Rig fresh(model.folder, {});
    ASSERT_NO_FATAL_FAILURE(live(rig, fresh, random, 60)) << "mix " << mix;
    forgotten += rig.stats().num_forgotten;
    replays += rig.stats().num_graph_replays;
  }
  EXPECT_GT(forgotten, 0u) << "no pool was short";
  EXPECT_EQ(replays > 0, std::string(GetParam()) == "remote");
}

INSTANTIATE_TEST_SUITE_P(Devices, RunnerLives, ::testing::Values("cpu", "remote"));

constexpr std::uint64_t kFork =
    (std::uint64_t{1} << 63) / 1000 * 1000 + 1000;  // + id, or + 1000 i + id: a fork of that sequence

// Branches of a draft: each fork has the logits of its own tokens, its origin keeps its own, and both may be gone on
// with.
TEST_P(RunnerLives, ForksAreSequencesOfTheirOwn) {
  for (const int target_blocks : {4096, 6}) {  // 6: without room a fork is computed anew, or not at all
    std::mt19937 random(17);
    RigOptions options;
    options.device = GetParam();
    options.target_blocks = target_blocks;
    Rig rig(models_[2].folder, options), fresh(models_[2].folder, {});
    int compared = 0;
    for (std::uint64_t id = 1; id <= 40; ++id) {
      std::map<std::uint64_t, std::vector<std::int32_t>> tokens = {{id, draw(random, 1 + random() % 50)}};
      ASSERT_EQ(rig.update(id, 0, tokens[id]), MORTISE_OK);
      const std::vector<std::int32_t> choices = rig.step({id}, 0.7f, 3);
      ASSERT_TRUE(choices[0] >= 0 && choices[1] >= 0 && choices[2] >= 0);
      EXPECT_TRUE(choices[0] != choices[1] && choices[0] != choices[2] && choices[1] != choices[2]);
      std::vector<std::uint64_t> ids = {id};
      for (std::size_t i = 1; i < 3; ++i) {
        ids.push_back(kFork + 1000 * i + id);
        tokens[ids.back()] = tokens[id];
        tokens[ids.back()].push_back(choices[i]);
        ASSERT_EQ(rig.fork(id, ids.back(), choices[i]), MORTISE_OK) << rig.error();
      }
      tokens[id].push_back(choices[0]);
      for (int depth = 0; depth < 3; ++depth) {
        const std::vector<std::int32_t> sampled = rig.step(ids, 0.7f);
        ASSERT_EQ(rig.status(), MORTISE_OK) << rig.error();
        for (std::size_t i = 0; i < ids.size(); ++i) {
          if (sampled[i] < 0) continue;
          fresh.update(id, 0, tokens[ids[i]]);
          EXPECT_EQ(fresh.step({id}, 0.7f).front(), sampled[i]);
          EXPECT_TRUE(same_bits(rig.logits(i), fresh.logits(0))) << "sequence " << id << ", branch " << i;
          fresh.end(id);
          tokens[ids[i]].push_back(sampled[i]);
          ++compared;
        }
      }
      for (std::size_t i = 1; i < 3; ++i) rig.end(ids[i]);
      if (random() % 2 == 0) rig.end(id);
    }
    for (std::uint64_t id = 1; id <= 40; ++id) rig.end(id);
    EXPECT_GT(compared, target_blocks == 6 ? 100 : 359);
    EXPECT_EQ(rig.stats().num_sequences, 0u);
    EXPECT_EQ(rig.stats().num_free_blocks + rig.stats().num_cached_free_blocks, rig.stats().num_blocks);
  }
}

TEST_F(RunnerTest, AForkCostsTheRowsBehindItsOrigin) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(3);
  ASSERT_EQ(rig.update(1, 0, draw(random, 100)), MORTISE_OK);
  const std::int32_t token = rig.step({1}, 0, 2)[1];
  ASSERT_EQ(rig.fork(1, kFork + 1, token), MORTISE_OK);
  const std::uint64_t before = rig.stats().num_rows;
  rig.step({1, kFork + 1});
  EXPECT_EQ(rig.stats().num_rows - before, 2u);  // 101 and more: the fork was computed from its beginning
}

TEST_F(RunnerTest, BeforeActivateNothingRuns) {
  RigOptions options;
  options.activate = false;
  Rig rig(models_[0].folder, options);
  EXPECT_NE(rig.update(1, 0, {1, 2}), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: update it after the proposer's activate"));
  rig.step({1});
  EXPECT_NE(rig.status(), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: run steps after the proposer's activate"));
  EXPECT_NE(rig.fork(1, kFork + 1, 5), MORTISE_OK);
  EXPECT_THAT(rig.error(), HasSubstr("the runner is not active: update it after the proposer's activate"));
}

TEST_F(RunnerTest, ForksThatCannotBeAreTold) {
  Rig rig(models_[0].folder, {});
  EXPECT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 cannot be forked: it has no token");
  ASSERT_EQ(rig.update(1, 0, {1, 2}), MORTISE_OK);
  EXPECT_EQ(rig.fork(1, 2, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "the id of fork 2 lacks MORTISE_RUNNER_FORK_BIT, the highest bit");
  ASSERT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_OK);
  EXPECT_EQ(rig.fork(1, kFork + 1, 5), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(rig.error(), HasSubstr("of a fork is in use"));
}

TEST_F(RunnerTest, RunsWhatItHasNotSeenAndNothingElse) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(1);
  std::vector<std::int32_t> tokens = draw(random, 100);
  const auto rows_of_step = [&] {
    const std::uint64_t before = rig.stats().num_rows;
    tokens.push_back(rig.step({1}).front());
    return rig.stats().num_rows - before;
  };
  ASSERT_EQ(rig.update(1, 0, tokens), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 100u);
  EXPECT_EQ(rows_of_step(), 1u);  // the draft of before
  EXPECT_EQ(rows_of_step(), 1u);
  tokens.push_back(5);  // all three accepted, and the bonus token
  ASSERT_EQ(rig.update(1, 100, {tokens.begin() + 100, tokens.end()}), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 2u);  // the last draft, which was never run, and the bonus token
  EXPECT_EQ(rows_of_step(), 1u);
  tokens.resize(104);
  tokens.push_back(6);  // the first draft is rejected
  ASSERT_EQ(rig.update(1, 104, {6}), MORTISE_OK);
  EXPECT_EQ(rows_of_step(), 1u);
  const std::vector<std::int32_t> all(tokens.begin(), tokens.end() - 1);
  ASSERT_EQ(rig.update(1, 0, all), MORTISE_OK);  // told all of it again
  tokens = all;
  EXPECT_EQ(rows_of_step(), 1u);
}

TEST_F(RunnerTest, DraftsOfTheCallersOwnAreRunAndEnterNoPrefixTree) {
  for (const std::uint32_t flags : {MORTISE_RUNNER_DRAFTS, 0u}) {
    Rig rig(models_[0].folder, {});
    std::mt19937 random(4);
    const std::vector<std::int32_t> committed = draw(random, 14), drafts = draw(random, 20);
    ASSERT_EQ(rig.update(1, 0, committed), MORTISE_OK);
    rig.step({1});
    const std::uint64_t before = rig.stats().num_rows;
    for (std::size_t i = 0; i < drafts.size(); ++i) {
      ASSERT_EQ(rig.update(1, static_cast<std::int32_t>(14 + i), {drafts[i]}, flags), MORTISE_OK);
      rig.step({1});
    }
    EXPECT_EQ(rig.stats().num_rows - before, 20u);
    // Two whole blocks, of 14 committed tokens and 18 drafts: of drafts they are the sequence's own.
    rig.end(1);
    EXPECT_EQ(rig.stats().num_cached_free_blocks, flags == 0 ? 2 : 0);
  }
}

TEST_F(RunnerTest, ASequenceThatTheModelCannotRunHasNoDrafts) {
  Rig rig(models_[0].folder, {});
  std::mt19937 random(2);
  ASSERT_EQ(rig.update(1, 0, draw(random, 2047)), MORTISE_OK);
  ASSERT_EQ(rig.update(2, 0, {1, 2, 70000, 3}), MORTISE_OK);
  ASSERT_EQ(rig.update(3, 0, {1, 2, 3}), MORTISE_OK);
  EXPECT_THAT(rig.step({1, 2, 3}), ::testing::ElementsAre(::testing::Ge(0), -1, ::testing::Ge(0)));
  EXPECT_THAT(rig.step({1, 3}), ::testing::Each(::testing::Ge(0)));  // position 2047 is the last that there is
  EXPECT_EQ(rig.step({1}).front(), -1);
  ASSERT_EQ(rig.update(2, 2, {4}), MORTISE_OK);  // the token that it did not know is gone
  EXPECT_GE(rig.step({2}).front(), 0);
}

TEST_F(RunnerTest, MistakesOfTheCallerAreTold) {
  Rig rig(models_[0].folder, {});
  EXPECT_EQ(rig.update(1, 3, {1}), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 should continue at token 3, but the runner knows 0 of its tokens");
  rig.step({1});
  EXPECT_EQ(rig.status(), MORTISE_INVALID_ARGUMENT);
  EXPECT_EQ(rig.error(), "sequence 1 has no token");
  ASSERT_EQ(rig.update(1, 0, {1}), MORTISE_OK);
  rig.step({1, 1});
  EXPECT_EQ(rig.error(), "sequence 1 is given twice");
}

std::string open_error(const std::filesystem::path& model, const RigOptions& options) {
  try {
    Rig rig(model, options);
    return "";
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

TEST_F(RunnerTest, PathMemoryAndAttentionOptionsAreChecked) {
  const std::filesystem::path& model = models_[0].folder;
  EXPECT_EQ(open_error(model, {.path = ""}), "the draft model has no path: give the folder of its checkpoint");
  EXPECT_EQ(open_error(model, {.kv_memory = "'12 monkeys'"}),
            "option 'kv_memory' is \"12 monkeys\" (a string); expected \"auto\", bytes, or a text such as \"512MiB\" "
            "with KiB, MiB or GiB");
  EXPECT_THAT(open_error(model, {.kv_memory = "100"}),
              HasSubstr("kv_memory of 100 bytes holds no block of 16 tokens of the draft model in " + model.string()));
  EXPECT_THAT(open_error(model, {.kv_memory = "'900000GiB'"}), HasSubstr(" does not fit the "));
  // More than that device has addresses for; a machine with less memory refuses it before.
  EXPECT_THAT(open_error(model, {.device = "remote", .kv_memory = "'17GiB'"}),
              ::testing::AnyOf(
                  HasSubstr(" bytes of KV cache for the draft model in " + model.string() +
                            ": device 'remote': allocate: the remote memory is used up (RESOURCE_EXHAUSTED); lower "
                            "the proposer's kv_memory"),
                  HasSubstr("; lower it")));
  EXPECT_THAT(open_error(model, {.attention = "{'block_sise': 32}"}), HasSubstr("did you mean 'block_size'?"));
  EXPECT_EQ(open_error(model, {.kv_memory = "'1MiB'", .attention = "{'block_size': 32}"}), "");
}

TEST_F(RunnerTest, UnderRejectionItsMemoryHoldsWhatTheTargetsDoes) {
  const std::filesystem::path& model = models_[0].folder;
  RigOptions options{.target_blocks = 20, .rejection = true, .kv_memory = "'64KiB'"};
  const std::string error = open_error(model, options);
  EXPECT_THAT(error, HasSubstr("kv_memory of 65536 bytes holds "));
  EXPECT_THAT(error, HasSubstr(" tokens of the draft model in " + model.string()));
  // 20 blocks of the target, and two for each of the 8 sequences.
  EXPECT_THAT(error, HasSubstr("beside the target's KV cache of 320 tokens it must hold 576: "));
  // What it says helps.
  const std::string to = "raise kv_memory to ";
  options.kv_memory = error.substr(error.find(to) + to.size());
  options.kv_memory.resize(options.kv_memory.find(' '));
  EXPECT_EQ(open_error(model, options), "");
  options.kv_memory = "'auto'";
  EXPECT_EQ(open_error(model, options), "");
  options.kv_memory = "'64KiB'";
  options.rejection = false;
  EXPECT_EQ(open_error(model, options), "");
}

}  // namespace
}  // namespace mortise::test
