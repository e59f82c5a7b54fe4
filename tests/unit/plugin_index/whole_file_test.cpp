#include "plugin_index/whole_file.hpp"

#include <sys/stat.h>

#include "index_fixture.hpp"

namespace mortise {
namespace {

using namespace test;
using testing::HasSubstr;

TEST(WholeFile, HasWhatWasWritten) {
  const TempFolder folder;
  const fs::path path = folder.path() / "a" / "b" / "file";
  write_whole_file(path, std::string_view("x\0y", 3));
  write_whole_file(path, std::string_view("x\0z", 3));
  EXPECT_EQ(read_whole_file(path, 3), std::string("x\0z", 3));
  EXPECT_EQ(std::distance(fs::directory_iterator(path.parent_path()), {}), 1) << "no temporary file is left";
}

TEST(WholeFile, IsNoLargerThanItsPurpose) {
  const TempFolder folder;
  const fs::path path = folder.write("file", "abcd");
  EXPECT_EQ(read_whole_file(path, 4), "abcd");
  EXPECT_THAT(error_of([&] { read_whole_file(path, 3); }), HasSubstr("file: has more than 3 bytes"));
}

TEST(WholeFile, IsRegular) {
  const TempFolder folder;
  EXPECT_THAT(error_of([&] { read_whole_file(folder.path(), 3); }), HasSubstr("this is not a regular file"));
  EXPECT_THAT(error_of([&] { read_whole_file(folder.path() / "none", 3); }), HasSubstr("none: No such file"));
  const fs::path pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { read_whole_file(pipe, 3); }), HasSubstr("this is not a regular file"));
}

TEST(WholeFile, SaysWhereItCannotBeWritten) {
  const TempFolder folder;
  folder.write("file", "");
  EXPECT_THAT(error_of([&] { write_whole_file(folder.path() / "file" / "below", "x"); }), HasSubstr("file"));
  fs::create_directory(folder.path() / "folder");
  EXPECT_THAT(error_of([&] { write_whole_file(folder.path() / "folder", "x"); }), HasSubstr("folder: Is a directory"));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), {}), 2) << "no temporary file is left";
}

}  // namespace
}  // namespace mortise
