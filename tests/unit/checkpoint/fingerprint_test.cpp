// The checkpoint's fingerprint and the file that keeps its costly part between starts.
// Covers: runtime/checkpoint/{hash_sidecar,weights_hash}
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "checkpoint/checkpoint.hpp"
#include "folder_test.hpp"

namespace mortise::test {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMiB = std::size_t{1} << 20;

class Fingerprint : public FolderTest {
 protected:
  Fingerprint() {
    fs::create_directory(model_);
    write("model/config.json", R"({"model_type":"llama","eos_token_id":2,"rope_theta":10000.0})");
    write_weights();
  }

  // `weights` is longer than two of the pieces that are hashed at a time.
  void write_weights() const {
    write("model/model.safetensors",
          safetensors_bytes({{"a", "F32", {1}, "aaaa"}, {"w", "BF16", {9, 512, 1024}, large_}}));
  }
  // Files that were just changed cannot be told from files that are being changed.
  static void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }

  std::string fingerprint() const { return Checkpoint::open(model_).fingerprint(); }
  std::string fingerprint_with_cache() const {
    Checkpoint checkpoint = Checkpoint::open(model_);
    checkpoint.start_hashing(cache_);
    return checkpoint.fingerprint();
  }
  std::string part(const std::string& name) const {
    std::istringstream parts(fingerprint());
    for (std::string part; std::getline(parts >> std::ws, part, ';');) {
      if (part.starts_with(name + ' ')) return part;
    }
    return "";
  }
  fs::path sidecar() const {
    std::vector<fs::path> found;
    if (fs::exists(cache_)) {
      for (const auto& entry : fs::directory_iterator(cache_)) found.push_back(entry.path());
    }
    return found.size() == 1 ? found.front() : fs::path();
  }
  static std::string content(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }
  HashSidecar sidecar_of_model() const { return {cache_, model_, Checkpoint::open(model_).identity().value()}; }

  const fs::path model_ = folder_ / "model", cache_ = folder_ / "cache" / "mortise";
  std::string large_ = std::string(9 * kMiB, 'w');
};

TEST_F(Fingerprint, EveryByteOfTheWeightsCounts) {
  const std::string before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  for (const std::size_t at :
       {std::size_t{0}, std::size_t{1}, 4 * kMiB - 1, 4 * kMiB, 5 * kMiB + 12345, 9 * kMiB - 1}) {
    large_[at] = 'x';
    write_weights();
    EXPECT_NE(fingerprint(), before) << at;
    large_[at] = 'w';
  }
  write("model/model.safetensors",
        safetensors_bytes({{"a", "F32", {1}, "aaab"}, {"w", "BF16", {9, 512, 1024}, large_}}));
  EXPECT_NE(fingerprint(), before);
  write_weights();
  EXPECT_EQ(fingerprint(), before);
}

TEST_F(Fingerprint, ThePlaceOfABlockOfWeightsCounts) {
  std::fill_n(large_.begin(), 4 * kMiB, '1');
  write_weights();
  const std::string before = fingerprint();
  large_ = std::string(4 * kMiB, 'w') + std::string(4 * kMiB, '1') + std::string(kMiB, 'w');
  write_weights();
  EXPECT_NE(fingerprint(), before);
}

TEST_F(Fingerprint, ByteOfEachShardCounts) {
  fs::remove(model_ / "model.safetensors");
  const auto write_shards = [&](const std::string& a, const std::string& b) {
    write("model/model-1.safetensors", safetensors_bytes({{"a", "F32", {1}, a}}));
    write("model/model-2.safetensors", safetensors_bytes({{"b", "F32", {1}, b}}));
  };
  write("model/model.safetensors.index.json",
        R"({"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}})");
  write_shards("aaaa", "bbbb");
  const std::string before = fingerprint();
  write_shards("aaaA", "bbbb");
  EXPECT_NE(fingerprint(), before);
  write_shards("aaaa", "Bbbb");
  EXPECT_NE(fingerprint(), before);
  write_shards("bbbb", "aaaa");
  EXPECT_NE(fingerprint(), before);
  write_shards("aaaa", "bbbb");
  EXPECT_EQ(fingerprint(), before);
}

TEST_F(Fingerprint, EachPartTellsItsOwnChanges) {
  const std::string weights = part("weights"), config = part("config"), defaults = part("defaults");
  EXPECT_EQ(fingerprint(), weights + "; " + config + "; " + defaults);
  for (const std::string& text : {std::string(R"({"temperature":0.7})"), std::string(R"({"temperature":0.8})"),
                                  std::string(R"({"top_k":20})"), std::string(R"({"eos_token_id":[2,3]})")}) {
    write("model/generation_config.json", text);
    EXPECT_NE(part("defaults"), defaults) << text;
    EXPECT_EQ(part("weights"), weights) << text;
    EXPECT_EQ(part("config"), config) << text;
  }
  write("model/generation_config.json", R"({"eos_token_id":2,"transformers_version":"5"})");
  EXPECT_EQ(part("defaults"), defaults);  // the same defaults in other words
  write("model/config.json", R"({"model_type":"llama","eos_token_id":2,"rope_theta":20000.0})");
  EXPECT_NE(part("config"), config);
  EXPECT_EQ(part("weights"), weights);
}

TEST_F(Fingerprint, EqualCopiesHaveEqualFingerprints) {
  fs::copy(model_, folder_ / "copy", fs::copy_options::recursive);
  EXPECT_EQ(Checkpoint::open(folder_ / "copy").fingerprint(), fingerprint());
}

TEST_F(Fingerprint, MadeWeightsAreNotTakenForReadOnes) {
  const Checkpoint read = Checkpoint::open(model_);
  const Checkpoint made = Checkpoint::from_memory("made", read.config(), read.tensors(), nullptr);
  EXPECT_THAT(made.fingerprint(), ::testing::StartsWith("weights sample-"));
}

TEST_F(Fingerprint, ASecondStartReadsNoWeight) {
  settle();
  const std::string before = fingerprint_with_cache();
  EXPECT_EQ(before, fingerprint());
  ASSERT_FALSE(sidecar().empty());
  Checkpoint checkpoint = Checkpoint::open(model_);
  fs::resize_file(model_ / "model.safetensors", 0);  // whoever touches the mapping now is ended by the system
  checkpoint.start_hashing(cache_);
  EXPECT_EQ(checkpoint.fingerprint(), before);
}

TEST_F(Fingerprint, WhatTheSidecarSaysIsTaken) {
  settle();
  const std::string hash(32, 'f');
  sidecar_of_model().write(hash);
  EXPECT_THAT(fingerprint_with_cache(), ::testing::StartsWith("weights " + hash + ';'));
  // Another spelling of the folder's path is the same folder.
  Checkpoint checkpoint = Checkpoint::open(model_ / ".." / "model");
  checkpoint.start_hashing(cache_);
  EXPECT_THAT(checkpoint.fingerprint(), ::testing::StartsWith("weights " + hash + ';'));
}

TEST_F(Fingerprint, ASidecarOfOtherFilesIsNotTaken) {
  settle();
  const std::string before = fingerprint_with_cache(), kept = content(sidecar());
  const auto modified = fs::last_write_time(model_ / "model.safetensors");
  std::fstream(model_ / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(5000000).put('x');
  fs::last_write_time(model_ / "model.safetensors", modified);
  EXPECT_NE(fingerprint_with_cache(), before);
  EXPECT_EQ(content(sidecar()), kept);  // changed a moment ago: no identity, so nothing is kept
  settle();
  const std::string after = fingerprint_with_cache();
  EXPECT_NE(after, before);
  EXPECT_NE(content(sidecar()), kept);
  EXPECT_EQ(fingerprint_with_cache(), after);
}

TEST_F(Fingerprint, DamagedSidecarsAreReplaced) {
  settle();
  const std::string before = fingerprint_with_cache(), good = content(sidecar());
  const fs::path path = sidecar();
  const auto expect_replaced = [&](const std::string& bytes) {
    write_file(path, bytes);
    EXPECT_EQ(fingerprint_with_cache(), before) << bytes;
    EXPECT_EQ(content(path), good) << bytes;
  };
  for (std::size_t at = 0; at < good.size() - 1; at += 7) {
    std::string damaged = good;
    damaged[at] ^= 1;
    expect_replaced(damaged);
    expect_replaced(good.substr(0, at));
  }
  for (const char* bytes : {"", "[]", "{}", "\xff\xfe", "null", R"({"mortise_weights_hash":1})"})
    expect_replaced(bytes);
  expect_replaced(std::string(3 * kMiB, ' '));
}

TEST_F(Fingerprint, TheSidecarOfAnotherCheckpointIsNotTaken) {
  settle();
  const std::string before = fingerprint_with_cache();
  const fs::path path = sidecar();
  HashSidecar(cache_, folder_, Checkpoint::open(model_).identity().value()).write(std::string(32, 'f'));
  for (const auto& entry : fs::directory_iterator(cache_)) {
    if (entry.path() != path) fs::rename(entry.path(), path);
  }
  EXPECT_EQ(fingerprint_with_cache(), before);
}

TEST_F(Fingerprint, AFolderThatCannotBeWrittenIsNoError) {
  settle();
  write("cache", "a file where the folder should be");
  EXPECT_EQ(fingerprint_with_cache(), fingerprint());
  Checkpoint checkpoint = Checkpoint::open(model_);
  checkpoint.start_hashing(std::nullopt);
  EXPECT_EQ(checkpoint.fingerprint(), fingerprint());
}

TEST_F(Fingerprint, StartsAtOneTimeAgree) {
  settle();
  const std::string expected = fingerprint();
  std::vector<std::string> found(8);
  std::vector<std::thread> threads;
  for (std::string& text : found) threads.emplace_back([&] { text = fingerprint_with_cache(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(found, ::testing::Each(expected));
  EXPECT_FALSE(sidecar().empty());  // one file, and no temporary one
}

TEST_F(Fingerprint, ACheckpointMayEndWhileItIsHashed) {
  for (int i = 0; i < 20; ++i) Checkpoint::open(model_).start_hashing(cache_);
  Checkpoint checkpoint = Checkpoint::open(model_);
  checkpoint.start_hashing(cache_);
  const Checkpoint moved = std::move(checkpoint);
  EXPECT_EQ(moved.fingerprint(), fingerprint());
}

TEST_F(Fingerprint, SidecarsOfRemovedCheckpointsAreRemoved) {
  const fs::path gone = folder_ / "gone";
  fs::create_directory(gone);
  const HashSidecar other(cache_, gone, "identity"), mine(cache_, model_, "identity");
  other.write("hash");
  mine.write("hash");
  EXPECT_TRUE(fs::exists(other.path()));
  fs::remove(gone);
  write_file(cache_ / "weights-notes.txt", "not one of these");
  mine.write("hash");
  EXPECT_FALSE(fs::exists(other.path()));
  EXPECT_TRUE(fs::exists(mine.path()));
  EXPECT_TRUE(fs::exists(cache_ / "weights-notes.txt"));
}

}  // namespace
}  // namespace mortise::test
