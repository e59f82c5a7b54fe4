// tests/unit/chat_template/fixed_time.hpp: the clock of strftime_now in tests, 2024-07-26 13:05:09, a Friday.
#pragma once

#include <ctime>

namespace mortise::test {

inline std::tm fixed_time() {
  std::tm time{};
  time.tm_year = 124;
  time.tm_mon = 6;
  time.tm_mday = 26;
  time.tm_hour = 13;
  time.tm_min = 5;
  time.tm_sec = 9;
  time.tm_wday = 5;
  time.tm_yday = 207;
  return time;
}

}  // namespace mortise::test
