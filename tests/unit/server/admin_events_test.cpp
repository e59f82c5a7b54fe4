#include "server/admin_events.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace mortise {
namespace {

std::vector<nlohmann::json> parsed(const AdminEvents& events) {
  std::vector<nlohmann::json> all;
  std::istringstream stream(events.lines());
  for (std::string line; std::getline(stream, line);) all.push_back(nlohmann::json::parse(line));
  return all;
}

TEST(AdminEvents, AreJsonLinesWithTheirTimeTheOldestFirst) {
  AdminEvents events;
  EXPECT_EQ(events.lines(), "");
  events.add({{"event", "swap"}, {"kind", "attention"}});
  events.add({{"event", "drain"}});
  const auto lines = parsed(events);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0]["event"], "swap");
  EXPECT_EQ(lines[0]["kind"], "attention");
  EXPECT_EQ(lines[1]["event"], "drain");
  EXPECT_GT(lines[0]["time"], 1.7e9);  // Unix seconds
  EXPECT_LE(lines[0]["time"], lines[1]["time"]);
}

TEST(AdminEvents, TextsOfClientsBreakNoLine) {
  AdminEvents events;
  events.add({{"event", "swap"}, {"name", "a\nb\xff\"c"}});
  const auto lines = parsed(events);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0]["name"], "a\nb\uFFFD\"c");
}

TEST(AdminEvents, KeepTheLastOnes) {
  AdminEvents events;
  for (std::size_t i = 0; i < AdminEvents::kMaxKept + 3; ++i) events.add({{"number", i}});
  const auto lines = parsed(events);
  ASSERT_EQ(lines.size(), AdminEvents::kMaxKept);
  EXPECT_EQ(lines.front()["number"], 3);
  EXPECT_EQ(lines.back()["number"], AdminEvents::kMaxKept + 2);
}

}  // namespace
}  // namespace mortise
