// Covers: runtime/checkpoint/{safetensors,safetensors_header}
#include <random>

#include "checkpoint/safetensors.hpp"
#include "folder_test.hpp"

namespace mortise::test {
namespace {

class SafetensorsFuzz : public FolderTest {};

std::string valid_file() {
  return safetensors_bytes({{"model.embed_tokens.weight", "BF16", {4, 2}, std::string(16, 'e')},
                            {"model.norm.weight", "F32", {2}, std::string(8, 'n')},
                            {"lm_head.weight", "F16", {2, 2}, std::string(8, 'h')},
                            {"scale", "F8_E5M2", {8}, std::string(8, 's')}});
}

// One random change of the kinds that find bugs in readers of lengths and JSON.
void mutate(std::string& bytes, std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return static_cast<std::size_t>(random() % limit); };
  static const std::string kTokens[] = {"9223372036854775807",
                                        "18446744073709551616",
                                        "-1",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "\"",
                                        ",",
                                        "\\u0000",
                                        "null",
                                        "1e3",
                                        "\"data_offsets\":",
                                        "\"F64\"",
                                        "0"};
  const std::size_t at = below(bytes.size());
  switch (below(6)) {
    case 0:
      bytes[at] = static_cast<char>(random());
      break;
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
      break;
    case 2:
      bytes[at] = static_cast<char>('0' + below(10));
      break;
    case 3:
      bytes.erase(at, below(12));
      break;
    case 4:
      bytes.insert(at, kTokens[below(std::size(kTokens))]);
      break;
    default:
      bytes.replace(at, below(8), bytes.substr(below(bytes.size()), below(24)));
      break;
  }
  if (bytes.empty()) bytes.push_back('x');
}

TEST_F(SafetensorsFuzz, AMutatedFileIsAnErrorOrHasAllItsViewsInside) {
  constexpr int kRounds = 5000;
  const std::string valid = valid_file();
  std::mt19937_64 random(1);
  int accepted = 0;
  unsigned sum = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::string bytes = valid;
    for (std::size_t changes = 1 + random() % 4; changes > 0; --changes) mutate(bytes, random);
    if (random() % 2 == 0 &&
        bytes.size() > 8) {  // a header length that fits again: else most changes only shift the data
      const std::uint64_t length = bytes.size() - 8 - std::min<std::size_t>(bytes.size() - 8, 40);
      bytes.replace(0, 8, std::string(reinterpret_cast<const char*>(&length), 8));
    }
    try {
      const SafetensorsFile file(write("x.safetensors", bytes));
      ++accepted;
      for (const auto& [name, view] : file.tensors()) {
        for (const std::byte b : view.bytes) sum += static_cast<unsigned>(b);  // a view outside the file would fault
      }
    } catch (const Error& error) {
      ASSERT_STRNE(error.what(), "") << "round " << round;
    }
  }
  EXPECT_GT(accepted, 0) << "the mutations are too coarse to reach the checks after the parser";
  EXPECT_LT(accepted, kRounds);
  EXPECT_NE(sum, 0u);
}

}  // namespace
}  // namespace mortise::test
