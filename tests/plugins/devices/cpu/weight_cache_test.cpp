// Packed weights in a file: the same bytes with and without it, and no damage, no stranger's file and no full disk does
// more than a warning.
#include "devices/cpu/weight_cache.hpp"

#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "device_fixture.hpp"
#include "devices/cpu/cpu_device.hpp"
#include "devices/cpu/ops.hpp"

namespace mortise::cpu {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A host that keeps what it is told. `base` first: a plugin hands it back to log().
struct Host {
  mortise_host base{};
  std::vector<std::string> warnings;

  Host() {
    base.struct_size = sizeof base;
    base.log = [](const mortise_host* host, int32_t level, mortise_string_view text) {
      EXPECT_EQ(level, MORTISE_LOG_WARNING);
      reinterpret_cast<Host*>(const_cast<mortise_host*>(host))->warnings.emplace_back(view(text));
    };
  }
};

// A matrix that comes quantised, with an order.
struct Quantised {
  static constexpr int64_t kN = 20, kK = 96;

  Quantised() : order(kK) {
    std::iota(order.rbegin(), order.rend(), 0);
    matrix.n = kN, matrix.k = kK, matrix.bits = 4, matrix.group_size = 32;
    matrix.order = order.data();
    matrix.read = [](void*, int64_t n0, int64_t n1, uint8_t* values, float* scales, uint8_t* zeros) {
      for (int64_t i = 0; i < (n1 - n0) * kK; ++i) values[i] = static_cast<uint8_t>((i + n0) % 16);
      for (int64_t i = 0; i < (n1 - n0) * kK / 32; ++i) scales[i] = 0.5f, zeros[i] = 8;
    };
  }
  std::vector<int32_t> order;
  mortise_quantized_matrix matrix = sized<mortise_quantized_matrix>();
};

class WeightCacheFile : public testing::Test {
 protected:
  WeightCacheFile() {
    std::string name = fs::temp_directory_path() / "mortise-test-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "cannot make " << name;
    folder_ = name;
    // Exact numbers, the same everywhere: a golden hash depends on them.
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i] = static_cast<Bf16>(0x3c00u + (i * 40503u) % 0x300u + (i % 3 == 0 ? 0x8000u : 0u));
    }
  }
  ~WeightCacheFile() override { fs::remove_all(folder_); }

  fs::path path() const { return folder_ / "mortise-cpu-test.packed"; }
  std::string contents() const {
    std::ifstream stream(path(), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }
  void write(const std::string& bytes) const { std::ofstream(path(), std::ios::binary) << bytes; }

  void open(const std::string& identity = "a checkpoint") {
    auto args = sized<mortise_weight_cache_args>();
    const std::string folder = folder_.string();
    args.folder = view(std::string_view(folder));
    args.format = view(std::string_view("test"));
    args.identity = view(std::string_view(identity));
    device_.cache.open(args, device_.pool);
  }

  mortise_weight* prepare(mortise_weight_source source, const std::string& name) {
    source.name = view(std::string_view(name));
    mortise_weight* weight = nullptr;
    mortise_error error = make_error();
    EXPECT_EQ(prepare_weight(&device_, &source, &weight, &error), MORTISE_OK) << error.message;
    return weight;
  }

  mortise_weight* prepare(const std::string& name, int32_t use, int32_t dtype, int32_t bits = 0, int32_t group = 0) {
    const bool vector = use == MORTISE_WEIGHT_VECTOR;
    const mortise_tensor part = vector ? vector_part(values_) : matrix(values_, 40, 70);
    const mortise_tensor* pointer = &part;
    auto source = sized<mortise_weight_source>();
    source.use = use, source.dtype = dtype, source.bits = bits, source.group_size = group;
    source.num_parts = 1, source.parts = &pointer;
    return prepare(source, name);
  }

  mortise_weight* prepare_quantised(const std::string& name) {
    const mortise_quantized_matrix* pointer = &quantised_.matrix;
    auto source = sized<mortise_weight_source>();
    source.use = MORTISE_WEIGHT_LINEAR, source.dtype = MORTISE_BF16, source.bits = 4, source.group_size = 32;
    source.num_parts = 1, source.quantized = &pointer;
    return prepare(source, name);
  }

  // What a model of all kinds of weights has in memory, as one text.
  std::string load(const std::string& identity = "a checkpoint") {
    open(identity);
    const std::vector<mortise_weight*> weights = {
        prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16),        prepare("b", MORTISE_WEIGHT_LINEAR, MORTISE_F32),
        prepare("c", MORTISE_WEIGHT_EMBEDDING, MORTISE_BF16),     prepare("d", MORTISE_WEIGHT_VECTOR, MORTISE_BF16),
        prepare("e", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 8),     prepare("f", MORTISE_WEIGHT_VECTOR, MORTISE_F32),
        prepare("g", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 4, 32), prepare_quantised("h")};
    device_.cache.close(true, device_.pool);
    std::string all;
    from_file_ = 0;
    for (mortise_weight* weight : weights) {
      all.append(static_cast<const char*>(weight->data), bytes_of(*weight));
      from_file_ += weight->file != nullptr;
      free_weight(&device_, weight);
    }
    return all;
  }

  // Also what scales, zeros and order of a quantised weight point to.
  static std::size_t bytes_of(const mortise_weight& weight) {
    const auto* const begin = static_cast<const std::byte*>(weight.data);
    if (weight.order != nullptr) return reinterpret_cast<const std::byte*>(weight.order + weight.k) - begin;
    if (weight.bits != 0) {
      const auto groups = static_cast<std::size_t>((weight.k + weight.group_size - 1) / weight.group_size);
      return reinterpret_cast<const std::byte*>(weight.zeros + 48 * groups) - begin;
    }
    if (weight.use == MORTISE_WEIGHT_VECTOR)
      return static_cast<std::size_t>(weight.n) * (weight.dtype == MORTISE_BF16 ? 6 : 4);
    if (!weight.packed) return static_cast<std::size_t>(weight.n * weight.k) * 2;
    return 48 * 96 * (weight.dtype == MORTISE_BF16 ? 2 : 4);
  }

  static constexpr int kWeights = 8;
  Host host_;
  mortise_device device_{available_isas().back(), 2, true, &host_.base};
  fs::path folder_;
  std::vector<Bf16> values_ = std::vector<Bf16>(2800);
  Quantised quantised_;
  int from_file_ = 0;
};

TEST_F(WeightCacheFile, LaterStartsTakeTheSameBytesFromIt) {
  const std::string packed = load();
  EXPECT_EQ(from_file_, 0);
  for (int start = 0; start < 2; ++start) {
    EXPECT_TRUE(load() == packed);
    EXPECT_EQ(from_file_, kWeights);
  }
  EXPECT_THAT(host_.warnings, IsEmpty());
}

// Who changes an order in memory has to change kLayout in weight_cache.cpp, or old files are taken for new ones. This
// hash is of the bytes that "cpu-pack/1" stands for: change both together.
TEST_F(WeightCacheFile, TheLayoutIsTheOneThatItsIdStandsFor) {
  const std::string packed = load();
  EXPECT_EQ(XXH3_64bits(packed.data(), packed.size()), 18444457319310844403u);
}

TEST_F(WeightCacheFile, AFlippedByteAnywhereIsFound) {
  const std::string packed = load();
  const std::string good = contents();
  ASSERT_GT(good.size(), 8192u);
  const std::size_t data_begin = 4096;
  for (std::size_t at = 0; at < good.size(); at += at < 1024 ? 1 : at < data_begin ? 61 : 997) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    write(bad);
    host_.warnings.clear();
    ASSERT_TRUE(load() == packed) << at;
    ASSERT_EQ(from_file_, 0) << at;
    ASSERT_EQ(host_.warnings.size(), 1u) << at;
    ASSERT_THAT(host_.warnings[0], HasSubstr("; it is not used, and made anew")) << at;
    if (at >= 64) {  // before lies what says which mistake it is
      ASSERT_THAT(host_.warnings[0], HasSubstr(at < data_begin ? "its head has another hash" : "on have another hash"));
    }
    ASSERT_TRUE(contents() == good) << at;  // made anew
  }
}

TEST_F(WeightCacheFile, ATruncatedOrLongerFileIsFound) {
  const std::string packed = load();
  const std::string good = contents();
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{4096},
                                 good.size() - 4096, good.size() - 1, good.size() + 1}) {
    std::string bad = good;
    bad.resize(size);
    write(bad);
    host_.warnings.clear();
    ASSERT_TRUE(load() == packed) << size;
    ASSERT_THAT(host_.warnings,
                ElementsAre(HasSubstr(path().string() + ": is damaged (" + std::to_string(size) + " bytes")));
  }
}

TEST_F(WeightCacheFile, AnotherCheckpointsOrVersionsFileIsNotTaken) {
  load();
  load("another checkpoint");
  EXPECT_EQ(from_file_, 0);
  EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr("was made of other weights, or by another version")));
  load("another checkpoint");
  EXPECT_EQ(from_file_, kWeights);  // else: it was not made anew
}

TEST_F(WeightCacheFile, AFileOfSomethingElseIsNotTaken) {
  const std::string packed = load();
  write(std::string(100000, 'x'));
  EXPECT_TRUE(load() == packed);
  EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr(": is no file of packed weights")));
}

// Hashes keep no one out: what they vouch for is checked too.
TEST_F(WeightCacheFile, ATableThatLeadsOutOfTheFileIsFoundThoughItsHashesFit) {
  const std::string packed = load();
  const std::string good = contents();
  std::uint32_t key_bytes = 0;
  std::memcpy(&key_bytes, &good[64], sizeof key_bytes);
  const std::size_t offset_at = 68 + key_bytes, bytes_at = offset_at + 8;
  const auto patched = [&](std::size_t at, auto value) {
    std::string bad = good;
    std::memcpy(&bad[at], &value, sizeof value);
    std::memset(&bad[56], 0, 8);
    const std::uint64_t hash = XXH3_64bits(bad.data(), 4096);
    std::memcpy(&bad[56], &hash, sizeof hash);
    return bad;
  };
  for (const std::string& bad : {patched(64, std::uint32_t{0xffffffff}), patched(32, std::uint64_t{1} << 60),
                                 patched(offset_at, std::uint64_t{8}), patched(offset_at, ~std::uint64_t{63}),
                                 patched(offset_at, std::uint64_t{good.size()}), patched(bytes_at, ~std::uint64_t{63}),
                                 patched(bytes_at, std::uint64_t{good.size()})}) {
    write(bad);
    host_.warnings.clear();
    ASSERT_TRUE(load() == packed);
    ASSERT_THAT(host_.warnings, ElementsAre(HasSubstr("is damaged (its table leads out of it)")));
  }
  write(patched(bytes_at, std::uint64_t{64}));  // shorter than the weight that it says it is
  ASSERT_TRUE(load() == packed);
  EXPECT_EQ(from_file_, kWeights - 1);
}

TEST_F(WeightCacheFile, AnOrderThatIsNotTheCheckpointsIsNotTaken) {
  const std::string packed = load();
  std::iota(quantised_.order.begin(), quantised_.order.end(), 0);  // another permutation under the same name
  EXPECT_FALSE(load() == packed);
  EXPECT_EQ(from_file_, kWeights - 1);
}

TEST_F(WeightCacheFile, WhereItCannotBeWrittenTheWeightsArePackedEachTime) {
  fs::remove_all(folder_);
  const std::string packed = load();
  EXPECT_THAT(host_.warnings,
              ElementsAre(HasSubstr(path().string() + ": cannot be written: No such file or directory; the "
                                                      "next start packs the weights again (packed_cache = "
                                                      "false: never keep them)")));
  fs::create_directories(path());  // a folder where the file should be
  host_.warnings.clear();
  EXPECT_TRUE(load() == packed);
  EXPECT_THAT(host_.warnings,
              ElementsAre(HasSubstr(path().string() + ": cannot be opened as a file; it is not used, and made anew"),
                          HasSubstr(": cannot be written: Is a directory")));
}

TEST_F(WeightCacheFile, AFullDiskLeavesNothingBehind) {
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  const auto old_handler = signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {10000, old.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  load();
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, old_handler);
  EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr(": cannot be written: File too large")));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(WeightCacheFile, KeepsNamedWeightsOfAModelThatLoaded) {
  open();
  mortise_weight* const named = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  device_.cache.close(false, device_.pool);
  EXPECT_TRUE(fs::is_empty(folder_));  // the model could not be loaded
  free_weight(&device_, named);

  open();
  mortise_weight* const nameless = prepare("", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  free_weight(&device_, prepare("freed", MORTISE_WEIGHT_LINEAR, MORTISE_BF16));
  mortise_weight* const kept = prepare("kept", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
  device_.cache.close(true, device_.pool);
  const auto identity = std::string("cpu-pack/1") + '\0' + "test" + '\0' + "a checkpoint";
  const auto file = PackedFile::open(path(), identity, device_.pool);
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->num_weights(), 1u);
  free_weight(&device_, nameless);
  free_weight(&device_, kept);
}

TEST_F(WeightCacheFile, OneNameInTwoFormsIsTwoWeights) {
  for (int start = 0; start < 2; ++start) {
    open();
    mortise_weight* const matrix = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16);
    mortise_weight* const integers = prepare("a", MORTISE_WEIGHT_LINEAR, MORTISE_BF16, 8);
    device_.cache.close(true, device_.pool);
    EXPECT_EQ(matrix->bits, 0);
    EXPECT_EQ(integers->bits, 8);
    EXPECT_NE(matrix->data, integers->data);
    EXPECT_EQ(matrix->file != nullptr && integers->file != nullptr, start == 1);
    free_weight(&device_, matrix);
    free_weight(&device_, integers);
  }
}

TEST(WeightCache, IsOffUnlessTheOptionAsksForIt) {
  for (const bool enabled : {false, true}) {
    Device device(enabled ? R"({"packed_cache": true})" : "{}");
    const auto* table =
        static_cast<const mortise_weight_cache_table*>(device.table().get_ext(device.get(), MORTISE_EXT_WEIGHT_CACHE));
    ASSERT_NE(table, nullptr);
    EXPECT_EQ(table->enabled(device.get()), enabled ? 1 : 0);
  }
}

}  // namespace
}  // namespace mortise::cpu
