// What can be wrong with a file of packed weights and with writing one: no damage, no stranger's file and no full disk
// does more than a warning.
// Covers: plugins/devices/cpu/temporary_file
#include "devices/cpu/packed_file.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstring>
#include <ctime>
#include <utility>

#include "weight_cache_fixture.hpp"

namespace mortise::cpu {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using PackedFileTest = WeightCacheFile;

// The file with another value at `at`, under a hash that fits.
template <typename T>
std::string patched(std::string file, std::size_t at, T value) {
  std::memcpy(&file[at], &value, sizeof value);
  std::memset(&file[56], 0, 8);
  const std::uint64_t hash = XXH3_64bits(file.data(), 4096);
  std::memcpy(&file[56], &hash, sizeof hash);
  return file;
}

TEST_F(PackedFileTest, AFlippedByteAnywhereIsFound) {
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
    ASSERT_THAT(host_.warnings[0], HasSubstr("; it is not used; a new one will be written")) << at;
    if (at >= 64) {  // before lies what says which mistake it is
      ASSERT_THAT(host_.warnings[0],
                  HasSubstr(at < data_begin ? "its header has a different hash" : "on have another hash"));
    }
    ASSERT_TRUE(contents() == good) << at;  // made anew
  }
}

TEST_F(PackedFileTest, ATruncatedOrLongerFileIsFound) {
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

TEST_F(PackedFileTest, AFileOfSomethingElseIsNotTaken) {
  const std::string packed = load();
  write(std::string(100000, 'x'));
  EXPECT_TRUE(load() == packed);
  EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr(": is not a file of packed weights")));
}

// Hashes keep no one out: what they vouch for is checked too.
TEST_F(PackedFileTest, ATableThatLeadsOutOfTheFileIsFoundThoughItsHashesFit) {
  const std::string packed = load();
  const std::string good = contents();
  std::uint32_t key_bytes = 0;
  std::memcpy(&key_bytes, &good[64], sizeof key_bytes);
  const std::size_t offset_at = 68 + key_bytes, bytes_at = offset_at + 8;
  for (const std::string& bad :
       {patched(good, 64, std::uint32_t{0xffffffff}), patched(good, 32, std::uint64_t{1} << 60),
        patched(good, offset_at, std::uint64_t{8}), patched(good, offset_at, ~std::uint64_t{63}),
        patched(good, offset_at, std::uint64_t{good.size()}), patched(good, bytes_at, ~std::uint64_t{63}),
        patched(good, bytes_at, std::uint64_t{good.size()})}) {
    write(bad);
    host_.warnings.clear();
    ASSERT_TRUE(load() == packed);
    ASSERT_THAT(host_.warnings, ElementsAre(HasSubstr("is damaged (its table points outside of the file)")));
  }
  write(patched(good, bytes_at, std::uint64_t{64}));  // fewer bytes than its weight needs
  ASSERT_TRUE(load() == packed);
  EXPECT_EQ(from_file_, kWeights - 1);
}

TEST_F(PackedFileTest, AFullDiskLeavesNothingBehind) {
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

// The time is what would be lost: to hash a quarter of a terabyte takes a minute.
TEST_F(PackedFileTest, AHugeFileThatSaysItIsOneCostsNoTime) {
  const std::string packed = load();
  const std::string good = contents();
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 38;
  const std::string as_large = patched(good, 16, kBytes);
  std::string other_version = as_large;
  other_version[8] ^= 2;
  const std::pair<std::string, const char*> cases[] = {
      {as_large, "its header has too few hashes for 274877906944 bytes"},
      {patched(as_large, 24, kBytes), "its head has 274877906944 bytes"},
      {patched(as_large, 24, (std::uint64_t{64} << 20) + 4096), "its head has 67112960 bytes"},
      {patched(patched(as_large, 40, ~std::uint64_t{0}), 24, kBytes), "was made from other weights"},
      {patched(other_version, 24, kBytes), "or by another version"},
      {patched(good, 24, std::uint64_t{0}), "its head has 0 bytes"},
      {patched(good, 24, std::uint64_t{4097}), "its head has 4097 bytes"},
  };
  for (const auto& [bytes, text] : cases) {
    write(bytes);
    if (bytes.compare(16, 8, good, 16, 8) != 0) fs::resize_file(path(), kBytes);  // takes no room
    host_.warnings.clear();
    const std::clock_t start = std::clock();  // processor time: others may be slow
    ASSERT_TRUE(load() == packed) << text;
    EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC) << text;
    EXPECT_THAT(host_.warnings, ElementsAre(HasSubstr(text)));
    EXPECT_TRUE(contents() == good) << text;
  }
}

TEST_F(PackedFileTest, MoreThanItsHeadHasHashesForIsNotWritten) {
  const std::byte byte{};
  const std::vector<PackedWeight> weights = {{"a", {&byte, std::size_t{1} << 44}}};
  try {
    write_packed_file(path(), "identity", weights, device_.pool);
    ADD_FAILURE() << "was written";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.message, HasSubstr(": cannot be written: File too large"));
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackedFileTest, WhatAKilledWriterLeftIsRemovedAndWhatIsBeingWrittenStays) {
  const auto touch = [&](const std::string& name) {
    std::ofstream(folder_ / name) << "part";
    return folder_ / name;
  };
  const fs::path left = touch("mortise-cpu-test.packed.tmp-a1B2c3"),
                 of_other = touch("mortise-cpu-x.packed.tmp-zzzzzz");
  const fs::path held = touch("mortise-cpu-test.packed.tmp-a1B2c4");
  const fs::path others[] = {touch("mortise-cpu-test.packed.backup"),
                             touch("mortise-cpu-test.packed.tmp-a1B2c"),
                             touch("mortise-cpu-test.packed.tmp-a1B2c45"),
                             touch("mortise-cpu-test.packed.tmp-a1-2c4"),
                             touch("model.packed.tmp-a1B2c3"),
                             touch("mortise-cpu-.packe.tmp-a1B2c3")};
  fs::create_directory(folder_ / "mortise-cpu-test.packed.tmp-folder");
  const int fd = ::open(held.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(fd, LOCK_EX | LOCK_NB), 0);
  load();
  EXPECT_FALSE(fs::exists(left));
  EXPECT_FALSE(fs::exists(of_other));
  EXPECT_TRUE(fs::exists(held));
  for (const fs::path& other : others) EXPECT_TRUE(fs::exists(other)) << other;
  EXPECT_TRUE(fs::exists(folder_ / "mortise-cpu-test.packed.tmp-folder"));
  EXPECT_THAT(host_.warnings, IsEmpty());
  ::close(fd);
  load();
  EXPECT_FALSE(fs::exists(held));  // nobody holds it any more
  EXPECT_TRUE(fs::exists(path()));
}

// A user who may not read the checkpoint may not read its packed weights either.
TEST_F(PackedFileTest, IsNoMoreReadableThanTheCheckpointAndThanTheUmaskSays) {
  const fs::path a = folder_ / "model-1.safetensors", b = folder_ / "model-2.safetensors";
  const auto mode_with = [&](mode_t mode_a, mode_t mode_b, mode_t mask) {
    fs::remove(path());
    for (const auto& [file, mode] : {std::pair(a, mode_a), std::pair(b, mode_b)}) {
      std::ofstream(file) << "weights";
      EXPECT_EQ(::chmod(file.c_str(), mode), 0);
    }
    const mode_t old = ::umask(mask);
    load();
    ::umask(old);
    struct stat status {};
    EXPECT_EQ(::stat(path().c_str(), &status), 0);
    return status.st_mode & 07777;
  };
  EXPECT_EQ(mode_with(0644, 0644, 022), 0644u);
  EXPECT_EQ(mode_with(0666, 0777, 0), 0644u);
  EXPECT_EQ(mode_with(0644, 0644, 077), 0600u);
  EXPECT_EQ(mode_with(0644, 0600, 022), 0600u);  // a private shard
  EXPECT_EQ(mode_with(0640, 0644, 022), 0640u);
  EXPECT_EQ(mode_with(0644, 0640, 027), 0640u);
  EXPECT_EQ(mode_with(0400, 0400, 022), 0600u);
  fs::create_symlink("nowhere", folder_ / "model-3.safetensors");
  EXPECT_EQ(mode_with(0644, 0644, 022), 0600u);  // what cannot be looked at may be private
  fs::remove(folder_ / "model-3.safetensors");
  EXPECT_EQ(mode_with(0644, 0644, 022), 0644u);
}

TEST_F(PackedFileTest, BesideNoCheckpointItIsPrivate) {
  const mode_t old = ::umask(022);
  load();
  ::umask(old);
  EXPECT_EQ(fs::status(path()).permissions(), fs::perms::owner_read | fs::perms::owner_write);
}

}  // namespace
}  // namespace mortise::cpu
