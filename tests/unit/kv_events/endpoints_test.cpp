#include "kv_events/endpoints.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "error.hpp"

namespace mortise {
namespace {

using ::testing::HasSubstr;

std::string publish_at(const std::string& endpoint, std::size_t index) {
  return endpoints_of_model({endpoint, ""}, index).publish;
}

std::string failure_of(const KvEndpoints& first, std::size_t index) {
  try {
    endpoints_of_model(first, index);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(KvEndpoints, EachModelHasItsOwn) {
  EXPECT_EQ(publish_at("tcp://127.0.0.1:5557", 0), "tcp://127.0.0.1:5557");
  EXPECT_EQ(publish_at("tcp://127.0.0.1:5557", 2), "tcp://127.0.0.1:5559");
  EXPECT_EQ(publish_at("tcp://127.0.0.1:*", 2), "tcp://127.0.0.1:*");
  EXPECT_EQ(publish_at("ipc:///run/mortise/kv", 1), "ipc:///run/mortise/kv.1");
  EXPECT_EQ(publish_at("", 1), "");
  EXPECT_THAT(failure_of({"tcp://127.0.0.1:65535", ""}, 1),
              HasSubstr("model 2 would publish its KV events at port 65536"));
}

TEST(KvEndpoints, NeighbouringPortsRiseByTwo) {
  for (const auto& [publish, replay] : {std::pair(5557, 5558), {5558, 5557}}) {
    const KvEndpoints first{fmt::format("tcp://*:{}", publish), fmt::format("tcp://*:{}", replay)};
    std::set<std::string> taken;
    for (std::size_t model = 0; model < 8; ++model) {
      const KvEndpoints own = endpoints_of_model(first, model);
      taken.insert({own.publish, own.replay});
    }
    EXPECT_EQ(taken.size(), 16u);  // fewer: a model's replay socket listens where another model publishes
  }
}

TEST(KvEndpoints, PortsFarApartRiseByOne) {
  const KvEndpoints own = endpoints_of_model({"tcp://127.0.0.1:5557", "tcp://127.0.0.1:5657"}, 1);
  EXPECT_EQ(own.publish, "tcp://127.0.0.1:5558");
  EXPECT_EQ(own.replay, "tcp://127.0.0.1:5658");
}

TEST(KvEndpoints, ACollisionNamesBothOptionsAndWhatToDo) {
  const KvEndpoints first{"tcp://127.0.0.1:5557", "tcp://0.0.0.0:5559"};
  EXPECT_EQ(failure_of(first, 1), "");
  EXPECT_EQ(failure_of(first, 2),
            "--kv-events tcp://127.0.0.1:5557 and --kv-events-replay tcp://0.0.0.0:5559: with 3 model(s) both need "
            "tcp://127.0.0.1:5559; give two ports next to each other, or ports further apart than there are models");
  EXPECT_THAT(failure_of({"tcp://*:5557", "tcp://*:5557"}, 0), HasSubstr("with 1 model(s) both need tcp://*:5557"));
  EXPECT_THAT(failure_of({"ipc:///run/kv", "ipc:///run/kv"}, 0), HasSubstr("both need ipc:///run/kv"));
  EXPECT_THAT(failure_of({"ipc:///run/kv", "ipc:///run/kv.1"}, 1), HasSubstr("both need ipc:///run/kv.1"));
  EXPECT_EQ(failure_of({"tcp://127.0.0.1:*", "tcp://127.0.0.1:*"}, 3), "");
  EXPECT_EQ(failure_of({"tcp://127.0.0.1:5557", "tcp://127.0.0.2:5557"}, 3), "");
}

}  // namespace
}  // namespace mortise
