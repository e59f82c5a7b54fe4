#include "trial/page.hpp"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "error.hpp"

namespace mortise {

void TrialPage::end(TrialState ended, std::string_view what, std::int32_t error_code) {
  const std::size_t size = std::min(what.size(), sizeof text - 1);
  std::memcpy(text, what.data(), size);
  text[size] = '\0';
  code.store(error_code, std::memory_order_relaxed);
  state.store(ended, std::memory_order_release);
}

std::string TrialPage::read_text() const {
  return {text, strnlen(text, sizeof text)};
}

SharedPage::SharedPage(std::string_view order) : file_(::memfd_create("mortise-trial", MFD_CLOEXEC)) {
  const std::size_t size = sizeof(TrialPage) + order.size();
  if (!file_ || ::ftruncate(file_.get(), static_cast<off_t>(size)) != 0) {
    fail("no memory for a trial: {}", std::strerror(errno));
  }
  map(size);
  new (page_) TrialPage;
  page_->order_size = order.size();
  std::memcpy(reinterpret_cast<char*>(page_) + sizeof(TrialPage), order.data(), order.size());
}

SharedPage::SharedPage(FileDescriptor made) : file_(std::move(made)) {
  struct stat status {};
  const bool is_file = ::fstat(file_.get(), &status) == 0 && status.st_size >= static_cast<off_t>(sizeof(TrialPage));
  if (!is_file) fail("this sub-command is internal: mortise starts it before a swap");
  map(static_cast<std::size_t>(status.st_size));
  file_.reset();
}

SharedPage::~SharedPage() {
  if (page_ != nullptr) ::munmap(page_, size_);
}

void SharedPage::map(std::size_t size) {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0);
  if (memory == MAP_FAILED) fail("no memory for a trial: {}", std::strerror(errno));
  size_ = size;
  page_ = static_cast<TrialPage*>(memory);
}

std::string_view SharedPage::order() const {
  return {reinterpret_cast<const char*>(page_) + sizeof(TrialPage), size_ - sizeof(TrialPage)};
}

}  // namespace mortise
