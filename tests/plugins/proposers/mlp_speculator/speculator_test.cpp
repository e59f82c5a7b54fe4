// The plugin through its entry function on the device cpu: logits and drafts against tests/golden/speculators, which an
// implementation of its own computed in double (make_speculators.py); what it keeps of sequences; what it refuses.
// Covers: plugins/proposers/mlp_speculator/{hidden_rows,plugin,weights} runtime/assembly/checkpoint_service
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <map>

#include "assembly/checkpoint_service.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/safetensors.hpp"
#include "golden/write_safetensors.hpp"
#include "loader/option_reader.hpp"
#include "mortise/ext/sequences.h"
#include "mortise/plugin.hpp"
#include "mortise/proposer.h"
#include "parity/stack.hpp"
#include "temp_folder.hpp"

namespace mortise::test {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

const fs::path kGolden = fs::path(MORTISE_SOURCE_DIR) / "tests/golden/speculators";

const mortise_component& component() {
  return *mortise_plugin_entry_v0(nullptr)->components[0];
}
const mortise_proposer_table& table() {
  return *static_cast<const mortise_proposer_table*>(component().table);
}

template <typename T>
std::vector<T> tensor_of(const SafetensorsFile& file, const std::string& name) {
  const TensorView& view = file.tensors().at(name);
  std::vector<T> values(view.bytes.size() / sizeof(T));
  std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
  return values;
}

// What make_speculators.py computed.
struct Golden {
  explicit Golden(const std::string& name)
      : folder(kGolden / name), config(nlohmann::json::parse(read_file(folder / "config.json"))) {
    const SafetensorsFile file(folder / "expected.safetensors");
    hidden = tensor_of<float>(file, "hidden");
    tokens = tensor_of<std::int64_t>(file, "tokens");
    logits = tensor_of<float>(file, "logits");
    drafts = tensor_of<std::int64_t>(file, "drafts");
  }
  int32_t get(const char* key) const { return config.at(key).get<int32_t>(); }
  int32_t num_rows() const { return static_cast<int32_t>(tokens.size()); }

  fs::path folder;
  nlohmann::json config;
  std::vector<float> hidden, logits;
  std::vector<std::int64_t> tokens, drafts;
};

// Logits of each call of the device's sample, row after row.
std::vector<std::vector<float>>& sampled_logits() {
  static std::vector<std::vector<float>> calls;
  return calls;
}
const mortise_device_table* real_device = nullptr;

mortise_status recording_sample(mortise_device* device, mortise_stream* stream, const mortise_sample_args* args,
                                mortise_error* error) {
  const auto* const data = static_cast<const float*>(args->logits->data);
  sampled_logits().emplace_back(data, data + args->logits->shape[0] * args->logits->shape[1]);
  return real_device->sample(device, stream, args, error);
}

mortise_host make_host() {
  mortise_host host{};
  host.struct_size = sizeof host;
  host.get_ext = [](const mortise_host*, const char* id) -> const void* {
    return std::string_view(id) == MORTISE_EXT_CHECKPOINT ? checkpoint_service() : nullptr;
  };
  return host;
}

class Instance {
 public:
  explicit Instance(const fs::path& folder, nlohmann::json options = nlohmann::json::object()) {
    const mortise_component& cpu = *built_in_parts().device;
    const OptionReader device_options({{"threads", 2}, {"isa", "auto"}, {"packed_cache", false}});
    auto args = sized<mortise_create_args>();
    device_options.give_to(args);
    require(cpu.create(&host_, &args, &device_, &error));
    real_device = static_cast<const mortise_device_table*>(cpu.table);
    device_table_ = *real_device;
    device_table_.sample = recording_sample;
    options["path"] = folder.string();
    const OptionReader reader(options);
    reader.give_to(args);
    args.device = static_cast<mortise_device*>(device_);
    args.device_table = &device_table_;
    require(component().create(&host_, &args, &instance_, &error));
  }
  ~Instance() {
    if (active_) component().deactivate(instance_);
    component().destroy(instance_);
    built_in_parts().device->destroy(device_);
  }

  mortise_status bind(int32_t hidden_size, int32_t vocab_size, int32_t dtype = MORTISE_F32) {
    dims_ = sized<mortise_model_dims>();
    dims_.hidden_size = hidden_size;
    dims_.vocab_size = vocab_size;
    dims_.dtype = dtype;
    auto args = sized<mortise_proposer_bind_args>();
    args.target = &dims_;
    return table().bind(self(), &args, &error);
  }
  void bind_as(int32_t hidden_size) { dims_.hidden_size = hidden_size; }
  void activate(int32_t max_num_seqs, int32_t max_logit_rows) {
    auto args = sized<mortise_activate_args>();
    args.max_num_seqs = max_num_seqs;
    args.max_logit_rows = max_logit_rows;
    require(component().activate(instance_, &args, &error));
    active_ = true;
  }

  struct Told {
    uint64_t id;
    int32_t token;  // the last one, of num_tokens
    int32_t num_tokens;
    int32_t hidden_row;
  };
  void observe(const std::vector<Told>& told, const std::vector<float>& hidden, std::vector<uint64_t> ended = {}) {
    std::vector<uint64_t> ids;
    std::vector<int32_t> offsets{0}, tokens, firsts, rows, accepted;
    for (const Told& one : told) {
      ids.push_back(one.id);
      tokens.push_back(one.token);
      offsets.push_back(static_cast<int32_t>(tokens.size()));
      firsts.push_back(one.num_tokens - 1);
      rows.push_back(one.hidden_row);
      accepted.push_back(0);
    }
    const int32_t width = dims_.hidden_size;
    std::vector<float> copy = hidden;
    const mortise_tensor tensor =
        make_tensor(copy.data(), MORTISE_F32, static_cast<int64_t>(hidden.size()) / width, width);
    auto seen = sized<mortise_observation>();
    seen.num_seqs = static_cast<int32_t>(ids.size());
    seen.num_ended = static_cast<int32_t>(ended.size());
    seen.seq_ids = ids.data();
    seen.token_offsets = offsets.data();
    seen.tokens = tokens.data();
    seen.num_accepted = accepted.data();
    seen.ended_ids = ended.data();
    seen.first_positions = firsts.data();
    seen.hidden = hidden.empty() ? nullptr : &tensor;
    seen.hidden_rows = rows.data();
    require(table().observe(self(), &seen, &error));
    std::fill(copy.begin(), copy.end(), 1e30f);  // the next step's rows: nobody may read these any more
  }
  std::vector<std::vector<int32_t>> propose(const std::vector<uint64_t>& ids, const std::vector<int64_t>& positions,
                                            const std::vector<int32_t>& most, float temperature = 0) {
    const int32_t width = *std::max_element(most.begin(), most.end());
    std::vector<int32_t> tokens(ids.size() * static_cast<std::size_t>(width), -7), counts(ids.size(), -7);
    const std::vector<uint64_t> keys(ids.begin(), ids.end());
    const std::vector<float> temperatures(ids.size(), temperature);
    auto args = sized<mortise_proposal_args>();
    args.num_seqs = static_cast<int32_t>(ids.size());
    args.draft_stride = width;
    args.seq_ids = ids.data();
    args.max_drafts = most.data();
    args.keys = keys.data();
    args.temperatures = temperatures.data();
    args.positions = positions.data();
    args.tokens = tokens.data();
    args.num_drafts = counts.data();
    auto step = sized<mortise_step>();
    step.device = static_cast<mortise_device*>(device_);
    step.device_table = &device_table_;
    require(table().propose(self(), &step, &args, &error));
    std::vector<std::vector<int32_t>> drafts;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto row = tokens.begin() + static_cast<std::ptrdiff_t>(i * static_cast<std::size_t>(width));
      drafts.emplace_back(row, row + counts[i]);
    }
    return drafts;
  }
  uint64_t num_sequences() {
    return static_cast<const mortise_sequences_table*>(component().get_ext(instance_, MORTISE_EXT_SEQUENCES))
        ->num_sequences(instance_);
  }
  int32_t max_drafts() { return table().max_drafts(self()); }

  mortise_error error = make_error();

 private:
  mortise_proposer* self() { return static_cast<mortise_proposer*>(instance_); }
  void require(mortise_status status) {
    if (status != MORTISE_OK) throw std::runtime_error(std::string(error.where) + ": " + error.message);
  }

  mortise_host host_ = make_host();
  mortise_device_table device_table_{};
  mortise_model_dims dims_{};
  void* device_ = nullptr;
  void* instance_ = nullptr;
  bool active_ = false;
};

class MlpSpeculator : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Golden, MlpSpeculator, ::testing::Values("untied", "tied", "one_stage"),
                         [](const auto& info) { return info.param; });

TEST_P(MlpSpeculator, LogitsAndDraftsAreThoseOfTheFormula) {
  const Golden golden(GetParam());
  const int32_t rows = golden.num_rows(), vocab = golden.get("vocab_size"), stages = golden.get("n_predict");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), vocab), MORTISE_OK) << instance.error.message;
  EXPECT_EQ(instance.max_drafts(), stages);
  instance.activate(rows, rows);
  std::vector<Instance::Told> told;
  std::vector<uint64_t> ids;
  for (int32_t r = 0; r < rows; ++r) {
    told.push_back({100 + static_cast<uint64_t>(r), static_cast<int32_t>(golden.tokens[r]), 9 + r, r});
    ids.push_back(told.back().id);
  }
  instance.observe(told, golden.hidden);
  std::vector<int64_t> positions;
  for (int32_t r = 0; r < rows; ++r) positions.push_back(9 + r);
  sampled_logits().clear();
  const auto drafts = instance.propose(ids, positions, std::vector<int32_t>(ids.size(), stages));

  ASSERT_EQ(sampled_logits().size(), static_cast<std::size_t>(stages));
  double worst = 0;
  for (int32_t s = 0; s < stages; ++s) {
    const float* const expected = &golden.logits[static_cast<std::size_t>(s * rows * vocab)];
    double largest = 0;
    for (int32_t i = 0; i < rows * vocab; ++i) largest = std::max(largest, std::fabs(double{expected[i]}));
    for (int32_t i = 0; i < rows * vocab; ++i) {
      worst = std::max(worst, std::fabs(double{sampled_logits()[s][i]} - expected[i]) / largest);
    }
    for (int32_t r = 0; r < rows; ++r) EXPECT_EQ(drafts[r][s], golden.drafts[s * rows + r]) << s << ", " << r;
  }
  RecordProperty("worst", std::to_string(worst * 1e6) + "e-6");
  EXPECT_LT(worst, 2e-5);  // a wrong constant in the formula gives 0.01 or more
}

TEST(Speculator, RowsAreOfTheirSequencesWhateverTheBatch) {
  const Golden golden("tied");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  instance.activate(/*max_num_seqs=*/6, /*max_logit_rows=*/2);  // three rounds through the stages
  const auto told = [&](uint64_t id, int32_t row) {
    return Instance::Told{id, static_cast<int32_t>(golden.tokens[row]), 20, row};
  };
  const auto expected = [&](int32_t row, int32_t length) {
    std::vector<int32_t> drafts;
    for (int32_t s = 0; s < length; ++s)
      drafts.push_back(static_cast<int32_t>(golden.drafts[s * golden.num_rows() + row]));
    return drafts;
  };
  instance.observe({told(1, 4), told(2, 0), told(3, 7), told(4, 5)}, golden.hidden);
  instance.observe({told(5, 2), told(1, 3)}, golden.hidden);  // 2, 3, 4 did not run in this step
  EXPECT_EQ(instance.propose({3, 1, 5, 2, 4}, {20, 20, 20, 20, 20}, {4, 2, 4, 1, 0}),
            (std::vector{expected(7, 4), expected(3, 2), expected(2, 4), expected(0, 1), expected(0, 0)}));
}

TEST(Speculator, DraftsNothingWithoutARowOfTheLastToken) {
  const Golden golden("tied");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  instance.activate(4, 4);
  instance.observe({{1, 5, 20, 0}, {2, 5, 20, -1}}, golden.hidden);
  EXPECT_EQ(instance.propose({1, 2, 9}, {21, 20, 20}, {3, 3, 3}), std::vector<std::vector<int32_t>>(3));
  instance.observe({{2, 6, 21, 3}}, golden.hidden);
  EXPECT_EQ(instance.propose({2}, {21}, {3}).front().size(), 3u);
  instance.observe({{2, 6, 22, 0}}, {});  // a step without hidden rows: what was kept is of a token before
  EXPECT_TRUE(instance.propose({2}, {22}, {3}).front().empty());
}

TEST(Speculator, HiddenRowsOfAnotherWidthAreRefusedAndNothingIsKept) {
  const Golden golden("tied");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  instance.activate(4, 4);
  instance.observe({{1, 5, 20, 0}}, golden.hidden);
  instance.bind_as(golden.get("emb_dim") / 2);  // what the rows are handed out as
  try {
    instance.observe({{2, 5, 20, 0}}, golden.hidden);
    ADD_FAILURE() << "taken";
  } catch (const std::runtime_error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the hidden rows do not have the target's width and type"));
  }
  EXPECT_EQ(instance.num_sequences(), 0u);
}

TEST(Speculator, KeepsNothingOfEndedSequencesAndNoMoreThanItHasRoomFor) {
  const Golden golden("tied");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  instance.activate(4, 4);
  instance.observe({{1, 5, 20, 0}, {2, 5, 20, 1}, {3, 5, 20, 2}}, golden.hidden);
  instance.observe({{4, 5, 20, 0}, {5, 5, 20, 1}, {2, 5, 21, 3}}, golden.hidden);
  EXPECT_EQ(instance.num_sequences(), 4u);  // of 1 and 3 one had to go
  EXPECT_EQ(instance.propose({2, 4, 5}, {21, 20, 20}, {1, 1, 1}).back().size(), 1u);
  instance.observe({}, {}, {1, 2, 3, 4, 5});
  EXPECT_EQ(instance.num_sequences(), 0u);
}

TEST(Speculator, SamplesWithTheSequencesKeyAndPosition) {
  const Golden golden("untied");
  Instance instance(golden.folder);
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  instance.activate(4, 4);
  const int32_t token = static_cast<int32_t>(golden.tokens[0]);
  instance.observe({{7, token, 20, 0}, {8, token, 20, 0}, {9, token, 31, 0}}, golden.hidden);
  const std::vector<int64_t> positions = {20, 20, 31};
  const auto first = instance.propose({7, 8, 9}, positions, {3, 3, 3}, /*temperature=*/2.0f);
  EXPECT_EQ(instance.propose({7, 8, 9}, positions, {3, 3, 3}, 2.0f), first);
  EXPECT_EQ(instance.propose({9, 7}, {31, 20}, {3, 3}, 2.0f), (std::vector{first[2], first[0]}));
  EXPECT_NE(first[0], first[1]);  // another key
}

TEST(Speculator, DraftsOnlyAsManyAsTheOptionSays) {
  const Golden golden("untied");
  Instance instance(golden.folder, {{"max_tokens", 2}});
  ASSERT_EQ(instance.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_OK);
  EXPECT_EQ(instance.max_drafts(), 2);
  Instance many(golden.folder, {{"max_tokens", 4}});
  EXPECT_EQ(many.bind(golden.get("emb_dim"), golden.get("vocab_size")), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(many.error.message, HasSubstr("max_tokens is 4; "));
  EXPECT_THAT(many.error.message, HasSubstr("drafts up to 3 tokens (n_predict); lower max_tokens or leave it out"));
}

TEST(Speculator, ASpeculatorOfAnotherModelIsRefused) {
  const Golden golden("untied");
  Instance instance(golden.folder);
  EXPECT_EQ(instance.bind(64, 97), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(instance.error.message, HasSubstr("untied/config.json: emb_dim is 48, the target's hidden size is 64"));
  EXPECT_EQ(instance.bind(48, 96), MORTISE_INVALID_ARGUMENT);
  EXPECT_THAT(instance.error.message, HasSubstr("vocab_size is 97, the target's vocabulary size is 96; use the"));
}

// A copy of a golden speculator with some tensors changed.
class HostileSpeculator : public ::testing::Test {
 protected:
  HostileSpeculator() {
    fs::copy_file(kGolden / "untied/config.json", folder_ / "config.json");
    const SafetensorsFile file(kGolden / "untied/model.safetensors");
    for (const auto& [name, view] : file.tensors()) {
      tensors_[name] = {name, "F32", view.shape, {reinterpret_cast<const char*>(view.bytes.data()), view.bytes.size()}};
    }
  }

  std::string bind_failure() {
    std::vector<TensorToWrite> all;
    for (const auto& [name, tensor] : tensors_) all.push_back(tensor);
    write_file(folder_ / "model.safetensors", safetensors_bytes(all));
    Instance instance(folder_);
    EXPECT_NE(instance.bind(48, 97), MORTISE_OK);
    return instance.error.message;
  }

  const test::TempFolder temp_;
  const fs::path& folder_ = temp_.path();
  std::map<std::string, TensorToWrite> tensors_;
};

TEST_F(HostileSpeculator, MissingAndMisshapenTensorsAreNamedWithWhatWasExpected) {
  const TensorToWrite head = tensors_.at("head.2.weight");
  tensors_.erase("head.2.weight");
  EXPECT_THAT(bind_failure(), HasSubstr("head.2.weight: the checkpoint has no such tensor; expected shape [97, 40]"));
  tensors_["head.2.weight"] = head;
  tensors_.at("head.2.weight").shape = {40, 97};
  EXPECT_THAT(bind_failure(),
              HasSubstr("head.2.weight: found shape [40, 97], expected [97, 40] according to config.json"));
}

TEST_F(HostileSpeculator, AFolderThatIsNoSpeculatorIsRefused) {
  write_file(folder_ / "config.json", R"({"model_type": "llama", "vocab_size": 97})");
  EXPECT_THAT(bind_failure(), HasSubstr("model type 'llama' is not mlp_speculator"));
  fs::remove(folder_ / "config.json");
  EXPECT_THAT(bind_failure(), HasSubstr("config.json"));
}

}  // namespace
}  // namespace mortise::test
