// runtime/trial/page.hpp: memory that the process of a trial and the one that waits for it both map. It needs no
// message that a plugin could disturb, and it can be read when the trial's process is dead.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "file_descriptor.hpp"
#include "loader/running_calls.hpp"

namespace mortise {

enum class TrialState : std::uint32_t {
  kRuns,
  kPassed,   // text: a JSON object of what was tried
  kRefused,  // text: why; code: of that Error
  kNotMade,  // text: why the parts that serve could not be tried
};

struct TrialPage {
  std::atomic<TrialState> state{TrialState::kRuns};
  std::atomic<std::int32_t> code{0};
  std::atomic<bool> has_candidate{false};     // what is tried is being opened, or has been
  std::atomic<bool> is_read{false};           // it is known what is tried
  std::atomic<std::uint64_t> most_memory{0};  // bytes that the process may take; 0: no candidate has been opened yet
  std::uint64_t order_size = 0;               // of the text behind the page
  CallRecord call;
  char text[64 << 10] = {};  // NUL-terminated

  void end(TrialState ended, std::string_view text, std::int32_t error_code = 0);
  std::string read_text() const;
};

// The page with the order of a trial behind it.
class SharedPage {
 public:
  // Makes both. Throws an Error when there is no memory.
  explicit SharedPage(std::string_view order);
  // Maps what another process has made; the descriptor is closed. Throws an Error when it is no such thing.
  explicit SharedPage(FileDescriptor made);
  ~SharedPage();
  SharedPage(const SharedPage&) = delete;
  SharedPage& operator=(const SharedPage&) = delete;

  TrialPage& operator*() { return *page_; }
  TrialPage* operator->() { return page_; }
  std::string_view order() const;
  int descriptor() const { return file_.get(); }

 private:
  void map(std::size_t size);

  FileDescriptor file_;
  std::size_t size_ = 0;
  TrialPage* page_ = nullptr;
};

}  // namespace mortise
