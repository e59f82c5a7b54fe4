// The table's memory, after the updates of each step, has the edits of each row, whatever came and went before.
#include "execution/edit_table.hpp"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "fake_parts.hpp"

namespace mortise::test {
namespace {

class EditTableTest : public testing::Test {
 protected:
  // Assigns and does what the device does. How many edits were sent.
  std::size_t step(const std::vector<RowEdits>& rows) {
    table_.assign(rows);
    std::set<std::int32_t> written;
    for (std::size_t i = 0; i < table_.places().size(); ++i) {
      const std::int32_t place = table_.places()[i];
      EXPECT_TRUE(written.insert(place).second) << "place " << place << " is written twice";
      EXPECT_LT(place, table_.size());
      table_.data()[place] = table_.updates()[i];
    }
    for (std::size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(table_.counts()[r], static_cast<std::int32_t>(rows[r].edits.size()));
      for (std::size_t i = 0; i < rows[r].edits.size(); ++i) {
        const LogitEdit& kept = table_.data()[table_.begins()[r] + static_cast<std::int32_t>(i)];
        const LogitEdit& wanted = rows[r].edits[i];
        EXPECT_EQ(kept.token, wanted.token) << "row " << r << " edit " << i;
        EXPECT_EQ(kept.subtract, wanted.subtract) << "row " << r << " edit " << i;
      }
    }
    return written.size();
  }
  static RowEdits row_of(std::uint64_t id, const SequenceEdits& edits) {
    return {id, edits.current(), edits.changes()};
  }

  FakeWorld world_{EngineLimits{}};
  const Parts parts_ = world_.parts();
  EditTable table_{parts_.device};
};

SamplingParams with_penalties() {
  SamplingParams params;
  params.frequency_penalty = 0.5f;
  return params;
}

TEST_F(EditTableTest, AStepSendsWhatChanged) {
  const SamplingParams params = with_penalties();
  const std::vector<std::int32_t> prompt = {3, 1, 4, 1, 5};
  SequenceEdits edits(params, prompt);
  EXPECT_EQ(step({row_of(1, edits)}), 4u);
  EXPECT_EQ(step({row_of(1, edits)}), 0u);
  edits.add_generated(4);
  EXPECT_EQ(step({row_of(1, edits)}), 1u);
  for (const std::int32_t token : {9, 4, 9, 4}) edits.add_generated(token);  // two edits, one of them new
  EXPECT_EQ(step({row_of(1, edits)}), 2u);
  const std::uint64_t ended[] = {1, 77};
  table_.end(ended);
  EXPECT_EQ(step({row_of(2, edits)}), 5u);  // in the place of the one that ended
}

TEST_F(EditTableTest, RowsOfTheirOwnAreSentWhole) {
  const std::vector<LogitEdit> edits = {{7, 0, 1, 2}, {1, 0, 1, 3}};
  EXPECT_EQ(step({{0, edits, {}}, {0, {}, {}}, {0, edits, {}}}), 4u);
  const std::int64_t size = table_.size();
  for (int i = 0; i < 10000; ++i) EXPECT_EQ(step({{0, edits, {}}}), 2u);
  EXPECT_EQ(table_.size(), size);
}

TEST_F(EditTableTest, KeepsItsWordWhileSequencesComeGrowPauseAndEnd) {
  const SamplingParams params = with_penalties();
  std::mt19937 random(5);
  std::map<std::uint64_t, SequenceEdits> live;
  std::uint64_t next = 1;
  std::int64_t first_size = 0;
  for (int i = 0; i < 1500; ++i) {
    while (live.size() < 40) {
      std::vector<std::int32_t> prompt(random() % 300);
      for (std::int32_t& token : prompt) token = static_cast<std::int32_t>(random() % 5000);
      live.emplace(next++, SequenceEdits(params, prompt));
    }
    std::vector<RowEdits> rows;
    std::vector<std::vector<LogitEdit>> own;
    own.reserve(live.size());
    for (auto& [id, edits] : live) {
      if (random() % 4 == 0) continue;  // it waits
      for (std::uint32_t n = random() % 4; n > 0; --n) {
        edits.add_generated(static_cast<std::int32_t>(random() % 5000));
      }
      rows.push_back(row_of(id, edits));
      if (random() % 8 != 0) continue;
      const std::vector<std::int32_t> drafts = {static_cast<std::int32_t>(random() % 5000)};
      rows.push_back({0, own.emplace_back(edits.with(drafts, {})), {}});
    }
    step(rows);
    if (HasFailure()) return;
    if (i == 0) first_size = table_.size();
    std::vector<std::uint64_t> ended;
    for (const auto& [id, edits] : live) {
      if (random() % 100 == 0) ended.push_back(id);
    }
    for (const std::uint64_t id : ended) live.erase(id);
    table_.end(ended);
  }
  EXPECT_GT(table_.size(), first_size);             // it grew
  EXPECT_LE(table_.size(), std::int64_t{1} << 17);  // and used again what was given back
}

}  // namespace
}  // namespace mortise::test
