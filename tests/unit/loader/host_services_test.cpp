#include "loader/host_services.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace mortise {
namespace {

TEST(HostServices, MemoryIsAlignedAndAccounted) {
  HostServices services("part", {});
  const mortise_host* host = services.host();
  for (std::uint64_t alignment = 1; alignment <= 4096; alignment *= 2) {
    void* memory = host->allocate(host, 100, alignment);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % alignment, 0u);
    std::memset(memory, 0xff, 100);
    EXPECT_EQ(services.allocated_bytes(), 100u);
    host->free(host, memory);
    EXPECT_EQ(services.allocated_bytes(), 0u);
  }
  host->free(host, nullptr);
}

TEST(HostServices, ImpossibleRequestsGetNothing) {
  HostServices services("part", {});
  const mortise_host* host = services.host();
  EXPECT_EQ(host->allocate(host, 1, 3), nullptr);
  EXPECT_EQ(host->allocate(host, 1, 0), nullptr);
  EXPECT_EQ(host->allocate(host, 1, 8192), nullptr);
  EXPECT_EQ(host->allocate(host, UINT64_MAX, 64), nullptr);  // not NULL: the size wrapped around
  EXPECT_EQ(services.allocated_bytes(), 0u);
}

TEST(HostServices, ExtensionsComeFromTheHook) {
  static const int kTable = 7;
  HostServices services("part", [](const char* id) -> const void* {
    return std::strcmp(id, "mortise.host.toy/1") == 0 ? &kTable : nullptr;
  });
  const mortise_host* host = services.host();
  EXPECT_EQ(host->get_ext(host, "mortise.host.toy/1"), &kTable);
  EXPECT_EQ(host->get_ext(host, "mortise.host.toy/2"), nullptr);
  EXPECT_EQ(host->get_ext(host, nullptr), nullptr);
  HostServices without("part", {});
  EXPECT_EQ(without.host()->get_ext(without.host(), "mortise.host.toy/1"), nullptr);
}

TEST(HostServices, TheClockDoesNotGoBack) {
  HostServices services("part", {});
  const auto first = services.host()->now_ns(services.host());
  EXPECT_GE(services.host()->now_ns(services.host()), first);
}

TEST(HostServices, LogTakesTextWithoutAnEnd) {
  HostServices services("part", {});
  const char text[] = {'h', 'i'};
  services.host()->log(services.host(), MORTISE_LOG_INFO, {text, 2});
  services.host()->log(services.host(), 99, {nullptr, 0});
}

}  // namespace
}  // namespace mortise
