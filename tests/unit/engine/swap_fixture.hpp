// tests/unit/engine/swap_fixture.hpp: requests that still run when parts are replaced.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine_fixture.hpp"

namespace mortise::test {

using Tokens = std::vector<std::int32_t>;

inline constexpr std::int32_t kLength = 40;  // tokens of an answer
inline const Tokens kPrompt = {1, 2, 3, 4, 5};

class SwapFixture : public EngineTest {
 protected:
  // Submits a request, and returns when it has some tokens, and far to go.
  void begin(Collector& collector, std::int32_t length = kLength, std::optional<std::string> proposer = {}) {
    Request request = greedy(kPrompt, length);
    request.speculation.proposer = std::move(proposer);
    engine->submit(std::move(request), collector.sink());
    collector.wait_for_tokens(3);
  }
  void expect_answer(Collector& collector, std::int32_t length = kLength) {
    EXPECT_EQ(collector.wait().at(0).ids(), expected(kPrompt, length));
  }
  // Scheduler and proposers of `next`; device, model and attention stay.
  Replacement policies_of(FakeWorld& next) {
    Parts parts = world->parts();
    static_cast<Policies&>(parts) = next.parts();
    return {parts, world->limits, true};
  }
};

}  // namespace mortise::test
