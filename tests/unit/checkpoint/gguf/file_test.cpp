// The container of GGUF files: what is read, and that each kind of damage is refused with its place and a remedy.
// Covers: runtime/checkpoint/gguf/{file,cursor,keys}
#include "checkpoint/gguf/file.hpp"

#include <gmock/gmock.h>

#include <random>

#include "../folder_test.hpp"
#include "checkpoint/gguf/keys.hpp"
#include "golden/write_gguf.hpp"

namespace mortise::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class GgufFileTest : public FolderTest {
 protected:
  std::string refusal(const std::string& bytes) const {
    const auto path = write("x.gguf", bytes);
    return error_of([&] { const GgufFile file(path); });
  }
};

GgufWriter small_file() {
  GgufWriter writer;
  writer.text("general.architecture", "llama").whole("a.whole", 7).number("a.number", 0.5f).truth("a.truth", true);
  writer.texts("a.texts", {"one", "", "three"}).wholes("a.wholes", {-1, 2}).numbers("a.numbers", {1.5f});
  writer.tensor("w", 0, {2, 3}, std::string(24, '\x11')).tensor("v", 30, {5}, std::string(10, '\x22'));
  return writer;
}

template <typename T>
std::string raw_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST_F(GgufFileTest, ReadsKeysAndTensorsOfBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    const GgufFile file(write("x.gguf", small_file().bytes(version)));
    GgufKeys keys(file);
    EXPECT_EQ(keys.text("general.architecture"), "llama");
    EXPECT_EQ(keys.whole("a.whole"), 7u);
    EXPECT_EQ(keys.number("a.number"), 0.5);
    EXPECT_EQ(keys.truth("a.truth"), true);
    EXPECT_EQ(keys.array("a.texts")->strings(), (std::vector<std::string_view>{"one", "", "three"}));
    EXPECT_EQ(keys.array("a.wholes")->number(0), -1);
    EXPECT_EQ(keys.array("a.numbers")->number(0), 1.5);
    EXPECT_EQ(keys.whole("absent"), std::nullopt);
    EXPECT_EQ(file.tensors().at("w").shape, (std::vector<std::int64_t>{2, 3}));
    EXPECT_EQ(file.tensors().at("w").bytes.size(), 24u);
    EXPECT_EQ(file.tensors().at("v").bytes[9], std::byte{0x22});
  }
}

TEST_F(GgufFileTest, KnowsAGgufFileByItsFirstBytes) {
  EXPECT_TRUE(GgufFile::is_one(write("x", small_file().bytes())));
  EXPECT_FALSE(GgufFile::is_one(write("y", "GGU")));
  EXPECT_FALSE(GgufFile::is_one(folder_));
  EXPECT_FALSE(GgufFile::is_one(folder_ / "absent"));
}

TEST_F(GgufFileTest, RefusesOtherFilesAndVersionsByName) {
  EXPECT_THAT(refusal(""), HasSubstr("does not begin with \"GGUF\""));
  EXPECT_THAT(refusal("PK\x03\x04 something"), HasSubstr("check the path, or download it again"));
  EXPECT_THAT(refusal("version https://git-lfs.github.com/spec/v1\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(refusal(small_file().bytes(1)), HasSubstr("version 1; versions 2 and 3 are served"));
  EXPECT_THAT(refusal(small_file().bytes(4)), HasSubstr("version 4; versions 2 and 3 are served"));
  EXPECT_THAT(refusal(small_file().bytes(0x03000000)), HasSubstr("big-endian GGUF file (version 3)"));
}

TEST_F(GgufFileTest, RefusesEveryTruncatedFile) {
  const std::string whole = small_file().bytes();
  const std::size_t end_of_last_tensor = whole.size() - 32 + 10;
  for (std::size_t size = 0; size < end_of_last_tensor; ++size) {
    ASSERT_NE(refusal(whole.substr(0, size)), "") << size << " of " << whole.size() << " bytes";
  }
  EXPECT_EQ(refusal(whole.substr(0, end_of_last_tensor)), "");  // what is missing is the filling at the end
}

TEST_F(GgufFileTest, RefusesCountsBeyondTheFileAndTheLimits) {
  const std::string start = "GGUF" + raw_bytes(std::uint32_t{3});
  EXPECT_THAT(refusal(start + raw_bytes(~std::uint64_t{0}) + raw_bytes(std::uint64_t{0})),
              HasSubstr("at most 262144 and 65536"));
  EXPECT_THAT(refusal(start + raw_bytes(std::uint64_t{0}) + raw_bytes(std::uint64_t{1} << 40)),
              HasSubstr("at most 262144"));
  EXPECT_THAT(refusal(start + raw_bytes(std::uint64_t{0}) + raw_bytes(std::uint64_t{60000})), HasSubstr("truncated"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 9, raw_bytes(std::uint32_t{0}) + raw_bytes(~std::uint64_t{0})).bytes()),
              AllOf(HasSubstr("key 'k' at byte 24"), HasSubstr("an array with 18446744073709551615 elements")));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 9, raw_bytes(std::uint32_t{8}) + raw_bytes(std::uint64_t{1000})).bytes()),
              HasSubstr("are left in the file"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 8, raw_bytes(~std::uint64_t{0})).bytes()), HasSubstr("truncated"));
  EXPECT_THAT(refusal(GgufWriter().whole(std::string(70000, 'k'), 1).bytes()), HasSubstr("at most 65536 are allowed"));
}

TEST_F(GgufFileTest, RefusesValuesThatTheFormatHasNot) {
  EXPECT_THAT(refusal(GgufWriter().raw("k", 13, "").bytes()), HasSubstr("has a value of type 13"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 7, "\x02").bytes()), HasSubstr("a truth value is 2; expected 0 or 1"));
  EXPECT_THAT(refusal(GgufWriter().raw("k", 9, raw_bytes(std::uint32_t{9}) + raw_bytes(std::uint64_t{1})).bytes()),
              HasSubstr("has elements of type 9 in an array"));
  EXPECT_THAT(refusal(GgufWriter().whole("k", 1).whole("k", 1).bytes()),
              AllOf(HasSubstr("key 'k' at byte"), HasSubstr("is there twice")));
}

TEST_F(GgufFileTest, RefusesTensorsThatCannotBe) {
  const auto with = [&](std::uint32_t type, const std::vector<std::int64_t>& shape, std::size_t bytes) {
    return refusal(GgufWriter().tensor("w", type, shape, std::string(bytes, 'x')).bytes());
  };
  EXPECT_EQ(with(0, {2, 2}, 16), "");
  EXPECT_THAT(with(0, {}, 4), HasSubstr("has 0 dimensions; expected 1 to 4"));
  EXPECT_THAT(with(0, {1, 1, 1, 1, 1}, 4), HasSubstr("has 5 dimensions"));
  EXPECT_THAT(with(0, {0, 2}, 0), HasSubstr("has a dimension of 0"));
  EXPECT_THAT(with(0, {-1, 2}, 8), HasSubstr("too many elements"));
  EXPECT_THAT(with(0, {std::int64_t{1} << 40, std::int64_t{1} << 40}, 8), HasSubstr("too many elements"));
  EXPECT_THAT(with(2, {1, 33}, 36), HasSubstr("has 33 columns, but Q4_0 stores them in blocks of 32"));
  EXPECT_THAT(with(12, {8, 32}, 144), HasSubstr("has 32 columns, but Q4_K stores them in blocks of 256"));
  EXPECT_THAT(with(0, {4, 4}, 8), HasSubstr("needs 64 bytes from byte"));
  EXPECT_THAT(with(16, {1, 256}, 66), AllOf(HasSubstr("'w' at byte 24 is of type IQ2_XXS, which is not served"),
                                            HasSubstr("use a file with weights of F32, F16, Q4_0")));
  EXPECT_THAT(with(777, {1, 256}, 66), HasSubstr("is of type type 777"));
  EXPECT_THAT(refusal(GgufWriter().tensor("w", 0, {1}, "abcd").tensor("w", 0, {1}, "abcd").bytes()),
              HasSubstr("tensor 'w' at byte"));
}

// The last eight bytes of a description are the offset into the data.
TEST_F(GgufFileTest, RefusesOffsetsOffTheAlignmentAndOverlaps) {
  const std::string whole =
      GgufWriter().tensor("a", 0, {8}, std::string(32, 'a')).tensor("b", 0, {8}, std::string(32, 'b')).bytes();
  const std::size_t end = 24 + 2 * (8 + 1 + 4 + 8 + 4 + 8);
  const auto with_offset = [&](std::uint64_t offset) {
    std::string bytes = whole;
    return refusal(bytes.replace(end - 8, 8, raw_bytes(offset)));
  };
  EXPECT_EQ(with_offset(32), "");
  EXPECT_THAT(with_offset(33), HasSubstr("no multiple of the alignment 32"));
  EXPECT_THAT(with_offset(0),
              AllOf(HasSubstr("begins at byte 0 of the data, inside of tensor"), HasSubstr("which ends at 32")));
  EXPECT_THAT(with_offset(64), HasSubstr("needs 32 bytes from byte"));
  EXPECT_THAT(with_offset(~std::uint64_t{31}), HasSubstr("needs 32 bytes from byte"));
}

TEST_F(GgufFileTest, TakesAnotherAlignmentAndRefusesAWrongOne) {
  const auto with = [&](std::uint32_t alignment) {
    return refusal(GgufWriter()
                       .whole("general.alignment", alignment)
                       .alignment(alignment == 0 ? 32 : alignment)
                       .tensor("a", 30, {3}, "abcdef")
                       .tensor("b", 30, {3}, "abcdef")
                       .bytes());
  };
  EXPECT_EQ(with(8), "");
  EXPECT_EQ(with(4096), "");
  for (const std::uint32_t wrong : {0u, 4u, 48u, 1u << 20})
    EXPECT_THAT(with(wrong), HasSubstr("no power of two from 8")) << wrong;
}

// Whatever one or two damaged bytes do, the file is refused or its tensors lie inside.
TEST_F(GgufFileTest, NoDamageMakesAViewLeaveTheFile) {
  const std::string whole = small_file().bytes();
  std::mt19937 random(28);
  for (int round = 0; round < 4000; ++round) {
    std::string bytes = whole;
    for (int i = 0; i <= round % 2; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
    const auto path = write("x.gguf", bytes);
    try {
      const GgufFile file(path);
      for (const auto& [name, tensor] : file.tensors()) {
        ASSERT_GE(tensor.bytes.data(), file.bytes().data());
        ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), file.bytes().data() + file.bytes().size());
      }
    } catch (const Error& error) {
      ASSERT_THAT(error.what(), HasSubstr("x.gguf: "));
    }
  }
}

TEST_F(GgufFileTest, KeysOfAnotherTypeAreRefusedWithTheirValue) {
  const GgufFile file(write("x.gguf", GgufWriter().text("t", "text").number("n", NAN).whole("w", 12).bytes()));
  GgufKeys keys(file);
  EXPECT_THAT(error_of([&] { keys.whole("t"); }), HasSubstr("key 't' at byte 24 is 'text'; expected a whole number"));
  EXPECT_THAT(error_of([&] { keys.whole("w", 11); }), HasSubstr("is 12; expected a whole number up to 11"));
  EXPECT_THAT(error_of([&] { keys.number("n"); }), HasSubstr("expected a number; convert the model again"));
  EXPECT_THAT(error_of([&] { keys.truth("w"); }), HasSubstr("expected true or false; convert the model again"));
  EXPECT_THAT(error_of([&] { keys.array("w"); }), HasSubstr("expected an array"));
  EXPECT_THAT(error_of([&] { keys.need_whole("absent"); }), HasSubstr("has no key 'absent', which a model needs"));
}

}  // namespace
}  // namespace mortise::test
