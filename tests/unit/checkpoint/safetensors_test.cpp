// Covers: runtime/checkpoint/{mapped_file,safetensors_header}
#include "checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "folder_test.hpp"

namespace mortise::test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Safetensors : public FolderTest {
 protected:
  std::string error_for(const std::string& bytes) const {
    return error_of([&] { SafetensorsFile(write("x.safetensors", bytes)); });
  }
  // The header of one tensor `a` with the given fields, over `data_bytes` zeros.
  std::string error_for_fields(const std::string& fields, std::size_t data_bytes) const {
    return error_for(safetensors_bytes("{\"a\":{" + fields + "}}", std::string(data_bytes, '\0')));
  }
};

TEST_F(Safetensors, ViewsLieInTheFileWithTheirShapesAndDtypes) {
  const auto path = write("x.safetensors", safetensors_bytes({{"w", "BF16", {2, 3}, "abcdefghijkl"},
                                                              {"s", "F32", {}, "wxyz"},
                                                              {"none", "F32", {0, 7}, ""},
                                                              {"ids", "I64", {1}, "12345678"}}));
  const SafetensorsFile file(path);
  ASSERT_EQ(file.tensors().size(), 4u);
  const TensorView& w = file.tensors().at("w");
  EXPECT_EQ(w.dtype, Dtype::kBf16);
  EXPECT_EQ(w.dtype_name, "BF16");
  EXPECT_THAT(w.shape, ElementsAre(2, 3));
  ASSERT_EQ(w.bytes.size(), 12u);
  EXPECT_EQ(std::memcmp(w.bytes.data(), "abcdefghijkl", 12), 0);
  EXPECT_THAT(file.tensors().at("s").shape, IsEmpty());
  EXPECT_EQ(file.tensors().at("s").bytes.size(), 4u);
  EXPECT_EQ(file.tensors().at("none").bytes.size(), 0u);
  EXPECT_EQ(file.tensors().at("ids").dtype, Dtype::kI64);
  EXPECT_EQ(file.metadata().at("format"), "pt");
}

TEST_F(Safetensors, ViewsOutliveAMoveOfTheFile) {
  SafetensorsFile first(write("x.safetensors", safetensors_bytes({{"w", "U8", {4}, "abcd"}})));
  const TensorView view = first.tensors().at("w");
  const SafetensorsFile second(std::move(first));
  EXPECT_EQ(std::memcmp(view.bytes.data(), "abcd", 4), 0);
  EXPECT_EQ(second.tensors().at("w").bytes.data(), view.bytes.data());
}

TEST_F(Safetensors, ATensorOfAnUnknownDtypeIsKeptAsBytes) {
  const SafetensorsFile file(write("x.safetensors", safetensors_bytes({{"q", "F8_E5M2", {5}, "abcde"}})));
  EXPECT_EQ(file.tensors().at("q").dtype, Dtype::kOther);
  EXPECT_EQ(file.tensors().at("q").dtype_name, "F8_E5M2");
  EXPECT_EQ(file.tensors().at("q").bytes.size(), 5u);
}

TEST_F(Safetensors, AFileWithoutTensorsIsOne) {
  EXPECT_EQ(error_for(safetensors_bytes("{}", "")), "");
  EXPECT_EQ(error_for(safetensors_bytes("{}      ", "")), "");  // writers pad the header with spaces
}

TEST_F(Safetensors, ATruncatedFileIsNamedWithTheSizeItShouldHave) {
  std::string bytes =
      safetensors_bytes({{"a", "F32", {4}, std::string(16, 'a')}, {"b", "F32", {4}, std::string(16, 'b')}});
  const std::string whole = std::to_string(bytes.size());
  bytes.resize(bytes.size() - 20);
  EXPECT_EQ(error_for(bytes), (folder_ / "x.safetensors").native() + ": " + std::to_string(bytes.size()) +
                                  " bytes, but tensor 'b' ends at byte " + whole +
                                  "; the file is truncated: download it again");
}

TEST_F(Safetensors, EveryTruncationIsRefused) {
  const std::string bytes = safetensors_bytes({{"a", "F32", {2}, "12345678"}, {"b", "U8", {3}, "abc"}});
  ASSERT_EQ(error_for(bytes), "");
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THAT(error_for(bytes.substr(0, size)), HasSubstr("download it again")) << size;
  }
}

TEST_F(Safetensors, WhatIsNoSafetensorsFileIsToldApart) {
  EXPECT_THAT(error_for(""), HasSubstr("0 bytes, but a safetensors file has at least 8"));
  EXPECT_THAT(error_for("version https://git-lfs.github.com/spec/v1\noid sha256:12\n"), HasSubstr("git lfs pull"));
  EXPECT_THAT(error_for("PK\x03\x04 a pickled torch file"), HasSubstr("is not a safetensors file"));
  EXPECT_THAT(error_for(safetensors_bytes("not json", "")), HasSubstr("the header is not JSON"));
  EXPECT_THAT(error_for(safetensors_bytes("[]", "")),
              HasSubstr("the header is a list; expected an object; the file is"));
  EXPECT_THAT(error_of([&] { SafetensorsFile(folder_ / "absent.safetensors"); }),
              HasSubstr("absent.safetensors: cannot be opened: No such file or directory"));
  EXPECT_THAT(error_of([&] { SafetensorsFile{folder_}; }), HasSubstr("is not a file"));
}

TEST_F(Safetensors, AHeaderBeyondTheLimitIsRefusedBeforeItIsRead) {
  std::string bytes(8, '\0');
  const std::uint64_t length = 100'000'001;
  std::memcpy(bytes.data(), &length, 8);
  EXPECT_THAT(error_for(bytes), HasSubstr("its header would have 100000001 bytes, the limit is 100000000"));
}

TEST_F(Safetensors, FieldsOfAWrongTypeAreRefused) {
  for (const char* fields : {
           R"("dtype":"U8","shape":[4])",
           R"("dtype":"U8","data_offsets":[0,4])",
           R"("shape":[4],"data_offsets":[0,4])",
           R"("dtype":8,"shape":[4],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":4,"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[[4]],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":["4"],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[-4],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[4.0],"data_offsets":[0,4])",
           R"("dtype":"U8","shape":[4],"data_offsets":[0])",
           R"("dtype":"U8","shape":[4],"data_offsets":[0,2,4])",
           R"("dtype":"U8","shape":[4],"data_offsets":[0,99999999999999999999])",
           R"("dtype":"U8","shape":[4],"data_offsets":null)",
           R"("dtype":"U8","shape":[4],"data_offsets":[0,4],"more":1)",
           R"("dtype":"U8","dtype":"U8","shape":[4],"data_offsets":[0,4])",
       }) {
    EXPECT_THAT(error_for_fields(fields, 4), AllOf(HasSubstr("'a'"), HasSubstr("the file is damaged"))) << fields;
  }
  EXPECT_EQ(error_for_fields(R"("shape":[4],"data_offsets":[0,4],"dtype":"U8")", 4), "");
}

TEST_F(Safetensors, OffsetsThatDoNotTileTheDataAreRefused) {
  const auto error_for_ranges = [&](int a0, int a1, int b0, int b1, std::size_t bytes) {
    return error_for(safetensors_bytes(fmt::format(R"({{"a":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}},)"
                                                   R"("b":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}}}})",
                                                   a1 - a0, a0, a1, b1 - b0, b0, b1),
                                       std::string(bytes, '\0')));
  };
  EXPECT_EQ(error_for_ranges(0, 4, 4, 8, 8), "");
  EXPECT_EQ(error_for_ranges(4, 8, 0, 4, 8), "");
  EXPECT_THAT(error_for_ranges(0, 4, 3, 8, 8), HasSubstr("'b' begins at byte 3 of the data, before the end"));
  EXPECT_THAT(error_for_ranges(0, 4, 0, 4, 4), HasSubstr("'b' begins at byte 0 of the data, before the end"));
  EXPECT_THAT(error_for_ranges(0, 4, 5, 8, 8), HasSubstr("'b' begins at byte 5 of the data, after the end"));
  EXPECT_THAT(error_for_ranges(1, 4, 4, 8, 8), HasSubstr("'a' begins at byte 1 of the data, after the end"));
  EXPECT_THAT(error_for_ranges(0, 4, 4, 8, 9), HasSubstr("but the last tensor ends at byte"));
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","shape":[4],"data_offsets":[4,0])", 4),
              HasSubstr("of the data, which is impossible; "));
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551615])", 4),
              HasSubstr("of the data, which is impossible; "));
}

TEST_F(Safetensors, AShapeThatDoesNotFitItsBytesIsRefused) {
  EXPECT_THAT(error_for_fields(R"("dtype":"F32","shape":[3],"data_offsets":[0,4])", 4),
              HasSubstr("tensor 'a' takes 4 bytes, but its shape and dtype 'F32' call for 12"));
  // 2^62 * 4 wraps to 0 in 64 bits: without the check an empty tensor would pass for one of 2^62 elements.
  for (const char* shape :
       {"4611686018427387904", "4294967296,4294967296", "18446744073709551615", "9223372036854775808,0"}) {
    EXPECT_THAT(error_for_fields(fmt::format(R"("dtype":"F32","shape":[{}],"data_offsets":[0,0])", shape), 0),
                HasSubstr("more elements than 64 bits can count"))
        << shape;
  }
}

TEST_F(Safetensors, AMisalignedTensorIsRefused) {
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  EXPECT_EQ(error_for(safetensors_bytes(header + std::string((8 - header.size() % 8) % 8, ' '), "abcd")), "");
  EXPECT_THAT(error_for(safetensors_bytes(header + std::string((8 - header.size() % 8) % 8 + 2, ' '), "abcd")),
              HasSubstr("tensor 'a' does not begin at a multiple of its element size, 4 bytes"));
}

TEST_F(Safetensors, ANameThatStandsTwiceIsRefused) {
  EXPECT_THAT(error_for(safetensors_bytes(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)"
                                          R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})",
                                          "")),
              HasSubstr("'a' is twice in the header"));
}

TEST_F(Safetensors, AnErrorCannotPlayWithTheTerminal) {
  const std::string error =
      error_for(safetensors_bytes(R"({"\u001b[2Jx\u009b)" + std::string(500, 'y') + R"(":{}})", ""));
  EXPECT_THAT(error, HasSubstr("'?[2Jx??yyy"));
  EXPECT_LT(error.size(), folder_.native().size() + 300);
  EXPECT_EQ(error.find('\x1b'), std::string::npos);
}

TEST_F(Safetensors, WhatStandsInAWrongPlaceIsNamed) {
  const auto error_for_shape = [&](const char* value) {
    return error_for_fields(fmt::format(R"("dtype":"U8","shape":[{}],"data_offsets":[0,4])", value), 4);
  };
  EXPECT_THAT(error_for_shape("-4"),
              HasSubstr("the header has a negative number in the description of 'a', where it does not belong"));
  EXPECT_THAT(error_for_shape("4.0"), HasSubstr("the header has a fraction or too large a number in the description"));
  EXPECT_THAT(error_for_shape("true"), HasSubstr("the header has a boolean in"));
  EXPECT_THAT(error_for_shape("null"), HasSubstr("the header has null in"));
  EXPECT_THAT(error_for_shape("\"4\""), HasSubstr("the header has a string in"));
  EXPECT_THAT(error_for_shape("{}"), HasSubstr("the header has an object in"));
  EXPECT_THAT(error_for_shape("[]"), HasSubstr("the header has a list in"));
  EXPECT_THAT(error_for_fields(R"("dtype":4)", 4), HasSubstr("the header has a number in"));
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","shape":[4],"data_offsets":[0])", 4),
              HasSubstr("tensor 'a' lacks a dtype, a shape or two data_offsets"));
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","more":1)", 4), HasSubstr("tensor 'a' has an unknown field 'more'"));
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","dtype":"U8")", 4), HasSubstr("tensor 'a' has twice the field 'dtype'"));
}

TEST_F(Safetensors, AFileWhoseHeaderIsCutIsNamedWithItsSize) {
  EXPECT_THAT(error_for(safetensors_bytes("{}", "").substr(0, 9)),
              HasSubstr("9 bytes, but the header ends at byte 10; the file is truncated: download it again"));
}

// A file that claims more than a process can map: in memory, since no disk takes it.
TEST_F(Safetensors, AFileThatCannotBeMappedIsNamedWithItsSize) {
  const int fd = ::memfd_create("huge", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, off_t{1} << 62), 0);
  EXPECT_THAT(error_of([&] { SafetensorsFile{"/proc/self/fd/" + std::to_string(fd)}; }),
              HasSubstr("4611686018427387904 bytes cannot be mapped: Cannot allocate memory"));
  ::close(fd);
}

TEST_F(Safetensors, AMillionDimensionsAreRefused) {
  std::string ones = "1";
  for (int i = 1; i < 65; ++i) ones += ",1";
  EXPECT_THAT(error_for_fields(R"("dtype":"U8","shape":[)" + ones + R"(],"data_offsets":[0,1])", 1),
              HasSubstr("tensor 'a' has a list of more than 64 numbers"));
  EXPECT_EQ(error_for_fields(R"("dtype":"U8","shape":[)" + ones.substr(2) + R"(],"data_offsets":[0,1])", 1), "");
}

TEST_F(Safetensors, MoreTensorsThanAnyCheckpointHasAreRefused) {
  std::string header = "{";
  for (int i = 0; i <= 1 << 18; ++i) {
    header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})", i == 0 ? "" : ",", i);
  }
  EXPECT_THAT(error_for(safetensors_bytes(header + "}", "")), HasSubstr("x.safetensors: has more than 262144 tensors"));
}

// A sparse file of 1 TiB: the error must be found without reading the hole.
TEST_F(Safetensors, ASparseFileOfATerabyteIsRefusedAtOnce) {
  const auto path = write("x.safetensors", safetensors_bytes({{"a", "U8", {4}, "abcd"}}));
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(error_of([&] { SafetensorsFile{path}; }),
              HasSubstr("1099511627776 bytes, but the last tensor ends at byte"));
  std::filesystem::resize_file(path, 0);
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(error_of([&] { SafetensorsFile{path}; }), HasSubstr("the header is not JSON"));
}

TEST_F(Safetensors, DeepNestingIsRefusedAtOnce) {
  const std::string deep(1'000'000, '[');
  EXPECT_NE(error_for(safetensors_bytes("{\"a\":" + deep, "")), "");
  EXPECT_NE(error_for(safetensors_bytes(deep, "")), "");
}

}  // namespace
}  // namespace mortise::test
