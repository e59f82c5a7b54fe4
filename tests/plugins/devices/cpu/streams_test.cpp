// The CPU has one stream, NULL. Everything has run when a call returns, so that a host needs no case of its own for it.
#include <gtest/gtest.h>

#include "device_fixture.hpp"

namespace mortise::cpu {
namespace {

TEST(CpuStreams, ThereIsOneAndItHasNothingToWaitFor) {
  Device device(Isa::kPortable, 1);
  const mortise_device_table& table = device.table();
  int somewhere = 0;
  auto* stream = reinterpret_cast<mortise_stream*>(&somewhere);
  ASSERT_EQ(table.stream_create(device.get(), &stream, &device.error), MORTISE_OK);
  EXPECT_EQ(stream, nullptr);
  EXPECT_EQ(table.stream_native(device.get(), stream), nullptr);
  std::vector<std::uint8_t> bytes(100);
  EXPECT_EQ(table.fill(device.get(), stream, bytes.data(), 7, bytes.size(), &device.error), MORTISE_OK);
  EXPECT_EQ(bytes, std::vector<std::uint8_t>(100, 7));  // at once, without synchronize
  EXPECT_EQ(table.stream_synchronize(device.get(), stream, &device.error), MORTISE_OK);
  table.stream_destroy(device.get(), stream);
}

TEST(CpuStreams, EventsAreThereAndHaveHappened) {
  Device device(Isa::kPortable, 1);
  const mortise_device_table& table = device.table();
  mortise_event* event = nullptr;
  ASSERT_EQ(table.event_create(device.get(), &event, &device.error), MORTISE_OK);
  EXPECT_EQ(table.event_synchronize(device.get(), event, &device.error), MORTISE_OK);  // one that was never recorded
  EXPECT_EQ(table.event_record(device.get(), event, nullptr, &device.error), MORTISE_OK);
  EXPECT_EQ(table.event_wait(device.get(), event, nullptr, &device.error), MORTISE_OK);
  EXPECT_EQ(table.event_synchronize(device.get(), event, &device.error), MORTISE_OK);
  table.event_destroy(device.get(), event);
}

}  // namespace
}  // namespace mortise::cpu
