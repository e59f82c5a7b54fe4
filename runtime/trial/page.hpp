// runtime/trial/page.hpp: memory that the process of a trial shares with the process that waits for it. It needs no
// messages, which a plugin could disturb, and can be read after the trial's process has died.
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
  kPassed,   // text: a JSON object that describes what was tried
  kRefused,  // text: the reason; code: of the Error
  kNotMade,  // text: why the serving parts could not be tried
};

// The state of a trial, in memory that two processes share: the atomics may be read at any time. Invariant: `text` is
// complete once `state` is not kRuns.
struct TrialPage {
  std::atomic<TrialState> state{TrialState::kRuns};
  std::atomic<std::int32_t> code{0};
  std::atomic<bool> has_candidate{false};  // the candidate is being opened, or has been
  std::atomic<bool> is_read{false};        // the candidate's description is known: its script has been run
  // The most bytes that the process may take; 0: no candidate was opened yet.
  std::atomic<std::uint64_t> most_memory{0};
  std::uint64_t order_size = 0;  // bytes of the text after the page
  CallRecord call;
  char text[64 << 10] = {};  // NUL-terminated

  void end(TrialState ended, std::string_view text, std::int32_t error_code = 0);
  std::string read_text() const;
};

// Maps a page and the order of a trial after it. Invariant: the page stays mapped as long as this. Used by one thread;
// the page itself is shared by two processes.
class SharedPage {
 public:
  // Creates both. Throws an Error if there is no memory.
  explicit SharedPage(std::string_view order);
  // Maps the page that another process made, and closes the descriptor. Throws an Error if it is something else.
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
