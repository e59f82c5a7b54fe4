#include "devices/cpu/packed_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL  // header-only, so the plugin depends on no library
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>

#include "devices/cpu/temporary_file.hpp"
#include "mortise/plugin.hpp"

namespace mortise::cpu {
namespace {

namespace fs = std::filesystem;

constexpr char kMagic[8] = {'M', 'O', 'R', 'T', 'P', 'A', 'C', 'K'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kLine = 64;
constexpr std::size_t kPiece = std::size_t{1} << 20;  // a piece takes some tens of microseconds to hash
// A head of this size has room for the hashes of 8 TiB, and is read without a noticeable delay.
constexpr std::size_t kMaxHead = std::size_t{64} << 20;

struct FileHead {
  char magic[8];
  std::uint32_t version, reserved;
  std::uint64_t file_bytes, data_begin, num_weights;
  std::uint64_t identity[2];
  std::uint64_t head_hash;  // of all bytes before data_begin, with this field as 0
};
static_assert(sizeof(FileHead) == 64);

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

constexpr std::size_t num_pieces(std::size_t bytes) {
  return (bytes + kPiece - 1) / kPiece;
}

std::pair<std::uint64_t, std::uint64_t> hash_of_identity(std::string_view identity) {
  const XXH128_hash_t hash = XXH3_128bits(identity.data(), identity.size());
  return {hash.low64, hash.high64};
}

std::uint64_t hash_of_head(std::span<const std::byte> head) {
  constexpr std::uint64_t kZero = 0;
  constexpr std::size_t kAt = offsetof(FileHead, head_hash);
  XXH3_state_t state;
  XXH3_64bits_reset(&state);
  XXH3_64bits_update(&state, head.data(), kAt);
  XXH3_64bits_update(&state, &kZero, sizeof kZero);
  XXH3_64bits_update(&state, head.data() + kAt + sizeof kZero, head.size() - kAt - sizeof kZero);
  return XXH3_64bits_digest(&state);
}

// Hashes all pieces on all threads. Each piece is paged in at once, since single page faults would take longer.
std::vector<std::uint64_t> hashes_of(std::span<const std::byte> data, ThreadPool& pool) {
  std::vector<std::uint64_t> hashes(num_pieces(data.size()));
  pool.for_each(static_cast<std::int32_t>(hashes.size()), [&](std::int32_t task, std::int32_t) {
    const auto piece = data.subspan(static_cast<std::size_t>(task) * kPiece)
                           .first(std::min(kPiece, data.size() - static_cast<std::size_t>(task) * kPiece));
#ifdef MADV_POPULATE_READ
    // This is only a hint. On older systems each page faults by itself.
    madvise(const_cast<std::byte*>(piece.data()), piece.size(), MADV_POPULATE_READ);
#endif
    hashes[static_cast<std::size_t>(task)] = XXH3_64bits(piece.data(), piece.size());
  });
  return hashes;
}

// Reads fields in order, never beyond the end. Invariant: left_ has not been read yet. Used by one thread.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : left_(bytes) {}

  template <typename T>
  bool read(T& value) {
    if (left_.size() < sizeof value) return false;
    std::memcpy(&value, left_.data(), sizeof value);
    left_ = left_.subspan(sizeof value);
    return true;
  }
  bool read(std::string& text, std::size_t size) {
    if (left_.size() < size) return false;
    text.assign(reinterpret_cast<const char*>(left_.data()), size);
    left_ = left_.subspan(size);
    return true;
  }
  std::size_t left() const { return left_.size(); }

 private:
  std::span<const std::byte> left_;
};

[[noreturn]] void damaged(const fs::path& path, const std::string& what) {
  throw Failure(MORTISE_DATA_LOSS, "packed_cache", path.native() + ": is damaged (" + what + ")");
}

// Compares the fields before anything is hashed, so that a forged size costs no time.
FileHead checked_head(const fs::path& path, std::span<const std::byte> file, std::string_view identity) {
  FileHead head;
  std::memcpy(&head, file.data(), sizeof head);
  if (std::memcmp(head.magic, kMagic, sizeof kMagic) != 0) {
    throw Failure(MORTISE_DATA_LOSS, "packed_cache", path.native() + ": is not a file of packed weights");
  }
  if (head.file_bytes != file.size()) {
    damaged(path, std::to_string(file.size()) + " bytes of " + std::to_string(head.file_bytes));
  }
  if (head.version != kVersion || std::pair(head.identity[0], head.identity[1]) != hash_of_identity(identity)) {
    throw Failure(MORTISE_DATA_LOSS, "packed_cache",
                  path.native() + ": was made from other weights, or by another version");
  }
  if (head.data_begin < sizeof head || head.data_begin > std::min(file.size(), kMaxHead) ||
      head.data_begin % kPage != 0) {
    damaged(path, "its head has " + std::to_string(head.data_begin) + " bytes");
  }
  if (hash_of_head(file.first(head.data_begin)) != head.head_hash) damaged(path, "its header has a different hash");
  return head;
}

}  // namespace

std::shared_ptr<const PackedFile> PackedFile::open(const fs::path& path, std::string_view identity, ThreadPool& pool) {
  // O_NONBLOCK: opening a named pipe must fail instead of waiting.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (fd.get() < 0 && errno == ENOENT) return nullptr;
  struct stat status {};
  if (fd.get() < 0 || ::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    throw Failure(MORTISE_DATA_LOSS, "packed_cache",
                  path.native() + ": cannot be opened as a file" +
                      (fd.get() < 0 ? std::string(": ") + std::strerror(errno) : std::string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size < sizeof(FileHead)) damaged(path, std::to_string(size) + " bytes");
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) damaged(path, std::string("cannot be mapped: ") + std::strerror(errno));
  Mapping mapping({static_cast<const std::byte*>(address), size});
  const std::shared_ptr<PackedFile> file(new PackedFile(std::move(mapping)));
  file->check(path, identity, pool);
  return file;
}

Mapping::~Mapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void PackedFile::check(const fs::path& path, std::string_view identity, ThreadPool& pool) {
  const std::span<const std::byte> file = mapping_.bytes();
  const FileHead head = checked_head(path, file, identity);
  const auto data = file.subspan(head.data_begin);
  Reader reader(file.first(head.data_begin).subspan(sizeof head));
  for (std::uint64_t i = 0; i < head.num_weights; ++i) {
    std::uint32_t key_bytes = 0;
    std::string key;
    std::uint64_t offset = 0, bytes = 0;
    if (!reader.read(key_bytes) || !reader.read(key, key_bytes) || !reader.read(offset) || !reader.read(bytes) ||
        offset > data.size() || bytes > data.size() - offset || offset % kLine != 0 || bytes % kLine != 0) {
      damaged(path, "its table points outside of the file");
    }
    weights_.insert_or_assign(std::move(key), data.subspan(offset, bytes));
  }
  // Bounds the number of pieces by the room in kMaxHead, so it also fits a number of tasks.
  if (reader.left() / sizeof(std::uint64_t) < num_pieces(data.size())) {
    damaged(path, "its header has too few hashes for " + std::to_string(file.size()) + " bytes");
  }
  const std::vector<std::uint64_t> found = hashes_of(data, pool);
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::uint64_t expected = 0;
    if (!reader.read(expected) || expected != found[i]) {
      damaged(path, "its bytes from " + std::to_string(head.data_begin + i * kPiece) + " on have another hash");
    }
  }
}

std::span<const std::byte> PackedFile::find(std::string_view key) const {
  const auto found = weights_.find(key);
  return found == weights_.end() ? std::span<const std::byte>() : found->second;
}

void write_packed_file(const fs::path& path, std::string_view identity, const std::vector<PackedWeight>& weights,
                       ThreadPool& pool) {
  std::string table;
  std::uint64_t data_bytes = 0;
  const auto append = [&](const auto& value) { table.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const PackedWeight& weight : weights) {
    append(static_cast<std::uint32_t>(weight.key.size()));
    table += weight.key;
    append(data_bytes);
    append(std::uint64_t{weight.bytes.size()});
    data_bytes += weight.bytes.size();
  }
  const std::size_t data_begin =
      round_up(sizeof(FileHead) + table.size() + num_pieces(data_bytes) * sizeof(std::uint64_t), kPage);
  const std::size_t file_bytes = data_begin + data_bytes;
  if (data_begin > kMaxHead) cannot_write(path, EFBIG);  // read_head would refuse it

  TemporaryFile file(path);
  // Reserves the whole size first: a full disk is then an error here instead of a signal when the mapping is written.
  if (const int reason = ::posix_fallocate(file.fd(), 0, static_cast<off_t>(file_bytes)); reason != 0) {
    cannot_write(path, reason);
  }
  std::uint64_t at = data_begin;
  for (const PackedWeight& weight : weights) {
    file.write(at, weight.bytes);
    at += weight.bytes.size();
  }
  void* const address = ::mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (address == MAP_FAILED) cannot_write(path, errno);
  {
    const Mapping mapping({static_cast<const std::byte*>(address), file_bytes});
    for (const std::uint64_t hash : hashes_of(mapping.bytes().subspan(data_begin), pool)) append(hash);
  }

  FileHead head = {};
  std::memcpy(head.magic, kMagic, sizeof kMagic);
  head.version = kVersion;
  head.file_bytes = file_bytes;
  head.data_begin = data_begin;
  head.num_weights = weights.size();
  std::tie(head.identity[0], head.identity[1]) = hash_of_identity(identity);
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes += table;
  bytes.resize(data_begin);
  const std::span<const std::byte> view = std::as_bytes(std::span(bytes));
  const std::uint64_t hash = hash_of_head(view);
  bytes.replace(offsetof(FileHead, head_hash), sizeof hash, reinterpret_cast<const char*>(&hash), sizeof hash);
  file.write(0, view);
  file.publish(".safetensors");
}

}  // namespace mortise::cpu
