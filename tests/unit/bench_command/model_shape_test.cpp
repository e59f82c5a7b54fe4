// Covers: runtime/bench_command/random_model
#include "bench_command/model_shape.hpp"

#include <nlohmann/json.hpp>

#include "bench_command/random_model.hpp"
#include "test_support.hpp"

namespace mortise::bench {
namespace {

using namespace test;

std::int64_t num_parameters(const ModelShape& shape) {
  std::int64_t sum = 0;
  for (const TensorShape& tensor : tensors_of(shape)) {
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.shape) elements *= extent;
    sum += elements;
  }
  return sum;
}

TEST(BenchShape, ShapesHaveTheParametersOfTheirNames) {
  EXPECT_EQ(num_parameters(model_shape("tiny")), 8'335'008);
  EXPECT_EQ(num_parameters(model_shape("160m")), 162'417'408);
  EXPECT_EQ(num_parameters(model_shape("1b")), 1'235'814'400);  // as Llama-3.2-1B, tied
  EXPECT_EQ(num_parameters(model_shape("8b")), 8'030'261'248);  // as Llama-3.1-8B
  EXPECT_EQ(num_parameters(model_shape("70b")), 70'553'706'496);  // as Llama-3.1-70B
}

TEST(BenchShape, AnUnknownShapeIsRefusedWithTheList) {
  EXPECT_EQ(error_of([] { model_shape("7b"); }),
            "--shape 7b: no shape has that name; there are tiny, 68m, 160m, 1b, 8b, 70b");
}

TEST(BenchShape, ADraftModelHasTheTargetsVocabulary) {
  const ModelFiles draft = make_random_draft(model_shape("68m"), Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo"));
  EXPECT_EQ(draft.tokenizer.vocab_size(), 4096u);
  EXPECT_EQ(draft.tokenizer.token(405), Tokenizer::load(MORTISE_SOURCE_DIR "/models/demo").token(405));
  EXPECT_EQ(nlohmann::json::parse(draft.checkpoint.config().json).at("vocab_size"), 4096);
  EXPECT_EQ(draft.checkpoint.find("lm_head.weight")->shape, (std::vector<std::int64_t>{4096, 768}));
  EXPECT_EQ(draft.checkpoint.path(), "68m");
}

TEST(BenchShape, DeviceBytesCountATiedHeadOnceUnlessItBecomesIntegers) {
  const std::uint64_t embedding = std::uint64_t{128256} * 2048,
                      body = 1'235'746'816 - 128256ull * 2048;  // without 67,584 of norms
  EXPECT_EQ(device_bytes_of(model_shape("1b"), 16, 16, 16), 2 * (body + embedding));
  EXPECT_EQ(device_bytes_of(model_shape("1b"), 8, 8, 16), body + 3 * embedding);
  EXPECT_EQ(device_bytes_of(model_shape("1b"), 4, 8, 16), body / 2 + 3 * embedding);
  EXPECT_EQ(device_bytes_of(model_shape("1b"), 32, 32, 32), 4 * (body + embedding));
  EXPECT_EQ(device_bytes_of(model_shape("tiny"), 16, 16, 16) / 2 + 13 * 288,
            num_parameters(model_shape("tiny")));  // norms
}

TEST(BenchShape, AShapeThatDoesNotFitTheMemoryIsRefusedBeforeItIsMade) {
  const ModelShape& shape = model_shape("8b");
  const auto error = [&](const nlohmann::json& options, std::uint64_t gib) {
    return error_of([&] { check_fits_memory(shape, options, gib << 30); });
  };
  EXPECT_EQ(error({{"dtype", "auto"}, {"weights", "auto"}}, 12),
            "--shape 8b: its weights take 15.0 GiB, and 12.0 GiB of memory are free; use a smaller shape, or --set "
            "model.weights=int8 (or int4)");
  EXPECT_EQ(error({{"weights", "int8"}}, 4),
            "--shape 8b: its weights take 8.0 GiB, and 4.0 GiB of memory are free; use a smaller shape, or --set "
            "model.weights=int4");
  EXPECT_EQ(error({{"weights", "int4"}}, 4),
            "--shape 8b: its weights take 4.7 GiB, and 4.0 GiB of memory are free; use a smaller shape");
  EXPECT_EQ(check_fits_memory(shape, {{"weights", "int8"}}, std::uint64_t{9} << 30), device_bytes_of(shape, 8, 8, 16));
  EXPECT_EQ(error_of([&] { check_draft_fits_memory(shape, std::uint64_t{3} << 30); }),
            "--draft-shape 8b: its weights take 15.0 GiB, and 3.0 GiB of memory are free beside the target's; use a "
            "smaller shape");
  check_draft_fits_memory(shape, std::uint64_t{16} << 30);
}

TEST(BenchShape, TheModelInMemoryIsTheOneThatIsWritten) {
  const ModelShape& shape = model_shape("tiny");
  const TempFolder dir;
  write_random_model(shape, dir.path());
  const ModelFiles written = ModelFiles::open(dir.path()), made = make_random_model(shape);
  EXPECT_EQ(made.checkpoint.config().json, written.checkpoint.config().json);
  EXPECT_EQ(made.checkpoint.path(), "tiny");
  EXPECT_EQ(made.checkpoint.generation_config().eos_token_ids, std::vector<std::int32_t>{2});
  ASSERT_EQ(made.checkpoint.tensors().size(), written.checkpoint.tensors().size());
  for (const auto& [name, view] : made.checkpoint.tensors()) {
    const TensorView* other = written.checkpoint.find(name);
    ASSERT_NE(other, nullptr) << name;
    EXPECT_EQ(view.shape, other->shape);
    EXPECT_TRUE(std::ranges::equal(view.bytes, other->bytes)) << name;
  }
}

TEST(BenchShape, TheTokenizerHasATokenForEachByteAndTheWholeVocabulary) {
  const ModelFiles model = make_random_model(model_shape("tiny"));
  EXPECT_EQ(model.tokenizer.vocab_size(), 4096u);
  const std::string text = "Once \xc3\xa4 \xe4\xb8\xad\n";
  const auto ids = model.tokenizer.encode(text, true);
  EXPECT_EQ(ids.size(), text.size());
  EXPECT_EQ(model.tokenizer.decode(ids, false), text);
  EXPECT_EQ(model.tokenizer.eos_id(), 2);
}

// The views of 16 GB of weights lie in a gigabyte of address space, and in a few megabytes of memory.
TEST(BenchShape, ALargeShapeCostsNoMemory) {
  const ModelFiles model = make_random_model(model_shape("8b"));
  const TensorView* head = model.checkpoint.find("lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_EQ(head->bytes.size(), std::size_t{2} * 128256 * 4096);
  EXPECT_EQ(head->bytes.front(), head->bytes[std::size_t{4} << 20]);  // the pattern again
  EXPECT_NE(head->bytes.back(), std::byte{0});                        // mapped to its end
}

TEST(BenchShape, AFolderThatCannotBeWrittenIsNamed) {
  EXPECT_THAT(error_of([] { write_random_model(model_shape("tiny"), "/no/such/folder"); }),
              "/no/such/folder/config.json: cannot be written; is the disk full? (TMPDIR can name another folder)");
}

TEST(BenchShape, WeightsThatCannotBeWrittenAreTold) {
  const TempFolder dir;
  fs::create_directory(dir.path() / "model.safetensors");
  EXPECT_EQ(error_of([&] { write_random_model(model_shape("tiny"), dir.path()); }),
            (dir.path() / "model.safetensors").string() +
                ": 15 MiB of random weights cannot be written; is the disk full? (TMPDIR can name another folder)");
}

TEST(BenchShape, ATemporaryFolderIsGoneWithItsObject) {
  fs::path path;
  {
    const TemporaryFolder folder;
    path = folder.path();
    write_text(path / "file", "text");
    EXPECT_TRUE(fs::exists(path / "file"));
  }
  EXPECT_FALSE(fs::exists(path));
}

}  // namespace
}  // namespace mortise::bench
