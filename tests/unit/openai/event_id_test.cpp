#include "openai/event_id.hpp"

#include <gtest/gtest.h>

#include "error.hpp"

namespace mortise {
namespace {

using Stage = ChoiceProgress::Stage;

StreamOrigin some_origin() {
  return {.fingerprint = "fp_0123abc",
          .answer_id = "00ff12",
          .created = 1764100000,
          .seed = 0xfedcba9876543210,
          .seed_drawn = true,
          .prompts = 0x1234};
}

std::string id_text(const std::vector<ChoiceProgress>& choices) {
  std::string text = origin_text(some_origin());
  append_progress(text, choices);
  return text;
}

// "accepted", or the start of the message.
std::string id_error(std::string_view text) {
  try {
    read_event_id(text);
    return "accepted";
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, 51);
  }
}

TEST(EventId, ComesBackAsItWas) {
  const std::vector<ChoiceProgress> choices = {
      {},
      {.stage = Stage::kBegun},
      {.stage = Stage::kBegun, .num_tokens = 12, .num_bytes = 45},
      {.stage = Stage::kEnded, .num_tokens = 3, .num_bytes = 0},
      {.stage = Stage::kEnded},
      {.stage = Stage::kBegun, .num_tokens = ~std::uint64_t{0}, .num_bytes = 1}};
  const EventId id = read_event_id(id_text(choices));
  EXPECT_EQ(id.origin.fingerprint, "fp_0123abc");
  EXPECT_EQ(id.origin.answer_id, "00ff12");
  EXPECT_EQ(id.origin.created, 1764100000);
  EXPECT_EQ(id.origin.seed, 0xfedcba9876543210u);
  EXPECT_TRUE(id.origin.seed_drawn);
  EXPECT_EQ(id.origin.prompts, 0x1234u);
  ASSERT_EQ(id.choices.size(), choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i) {
    EXPECT_EQ(id.choices[i].stage, choices[i].stage) << i;
    EXPECT_EQ(id.choices[i].num_tokens, choices[i].num_tokens) << i;
    EXPECT_EQ(id.choices[i].num_bytes, choices[i].num_bytes) << i;
  }
}

TEST(EventId, IsPrintableAsciiWithoutSpaces) {
  for (const char c : id_text({{.stage = Stage::kBegun}, {.stage = Stage::kEnded}})) {
    EXPECT_TRUE(c > ' ' && c < 0x7F) << c;
  }
}

TEST(EventId, EveryCutAndEveryForeignTextIsAnErrorOrAnId) {
  const std::string whole = id_text({{.stage = Stage::kBegun, .num_tokens = 12, .num_bytes = 45}});
  const std::size_t origin_size = origin_text(some_origin()).size();
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::string cut = id_error(std::string_view(whole).substr(0, size));
    if (size < origin_size) {
      EXPECT_EQ(cut, "Last-Event-ID is not the id of an event of this ser") << size;
    }
  }
  const std::string origin = origin_text(some_origin());
  for (const std::string& text :
       {std::string("2") + whole.substr(1), origin + "1-", origin + "-1", origin + "1-2x", origin + "1-2-3",
        origin + "bb", origin + "+1-2", origin + "1- 2", origin + "18446744073709551616-1", origin + "1-2~",
        origin + "e", std::string("1~fp~00FF~1~1~0~1~b"), std::string("1~fp~<script>~1~1~0~1~b"),
        std::string("1~fp~00~1~g~0~1~b"), std::string("1~fp~00~1~11111111111111111~0~1~b"),
        origin + std::string(20000, '.')}) {
    EXPECT_EQ(id_error(text), "Last-Event-ID is not the id of an event of this ser") << text.substr(0, 80);
  }
}

}  // namespace
}  // namespace mortise
