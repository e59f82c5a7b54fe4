// mortise/plugin.hpp: C++ helpers for plugin authors. Not part of the ABI: they are compiled into the plugin. C++17.
// Since 0.1. They keep no global state, so any thread may use them; an object is for one thread at a time.
//   Failure, guard()      an exception barrier: throw inside, return a mortise_status outside
//   known(), sized()      copy the fields of a struct that both sides know; make a zeroed struct with its size set
//   Options               typed access to the options
//   make_tensor(), dtype_bytes()
//   MORTISE_PLUGIN        defines the entry function from a list of components
#pragma once

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "mortise/abi.h"
#include "mortise/manifest.h"
#include "mortise/plugin.h"

namespace mortise {

// The exception to throw inside guard(): a status code, and what is wrong. `where` names a function, option or tensor,
// and must be static text. A value.
class Failure : public std::exception {
 public:
  Failure(mortise_status code, const char* where, std::string message)
      : code(code), where(where), message(std::move(message)) {}
  const char* what() const noexcept override { return message.c_str(); }

  mortise_status code;
  const char* where;
  std::string message;
};

// Fills `error`, cutting texts to its size, and returns `code`. `error` may be NULL.
inline mortise_status set_error(mortise_error* error, mortise_status code, std::string_view where,
                                std::string_view message) noexcept {
  if (error != nullptr && error->struct_size >= sizeof(mortise_error)) {
    error->code = code;
    const auto copy = [](char* to, std::size_t capacity, std::string_view from) {
      const std::size_t n = std::min(from.size(), capacity - 1);
      std::memcpy(to, from.data(), n);
      to[n] = '\0';
    };
    copy(error->where, sizeof error->where, where);
    copy(error->message, sizeof error->message, message);
  }
  return code;
}

// Runs `body` and returns OK. If it throws, returns the status of a Failure, RESOURCE_EXHAUSTED for std::bad_alloc and
// INTERNAL for anything else, which ends the instance (abi.h).
template <typename Body>
mortise_status guard(mortise_error* error, const char* where, Body&& body) noexcept {
  try {
    body();
    return MORTISE_OK;
  } catch (const Failure& failure) {
    return set_error(error, failure.code, failure.where, failure.message);
  } catch (const std::bad_alloc&) {
    return set_error(error, MORTISE_RESOURCE_EXHAUSTED, where, "out of memory");
  } catch (const std::exception& exception) {
    return set_error(error, MORTISE_INTERNAL, where, exception.what());
  } catch (...) {
    return set_error(error, MORTISE_INTERNAL, where, "unknown exception");
  }
}

// Throws INVALID_ARGUMENT. `where` must be static text.
[[noreturn]] inline void invalid(const char* where, std::string message) {
  throw Failure(MORTISE_INVALID_ARGUMENT, where, std::move(message));
}

// Throws a Failure if a call into the device returned a status other than OK.
inline void check(mortise_status status, const mortise_error& error) {
  if (status != MORTISE_OK) throw Failure(status, "device", std::string(error.where) + ": " + error.message);
}

// An empty error to pass to a call.
inline mortise_error make_error() {
  mortise_error error{};
  error.struct_size = sizeof error;
  return error;
}

// Returns a copy of *from with the fields that both sides know; all other fields are 0.
template <typename T>
T known(const T* from) {
  T to{};
  std::memcpy(&to, from, std::min<std::size_t>(from->struct_size, sizeof(T)));
  return to;
}

// A zeroed T with its struct_size set.
template <typename T>
T sized() {
  T value{};
  value.struct_size = sizeof(T);
  return value;
}

// Both borrow the text.
inline std::string_view view(mortise_string_view text) {
  return {text.data, static_cast<std::size_t>(text.size)};
}
inline mortise_string_view view(std::string_view text) {
  return {text.data(), text.size()};
}

// The options that create() gets. The host has validated them and filled in the defaults, so get() only converts. Valid
// during create(), like the reader that it borrows. For the thread of create(). Invariant: the reader is not null.
class Options {
 public:
  explicit Options(const mortise_create_args& args) : reader_(args.option_reader) {
    if (reader_ == nullptr) throw Failure(MORTISE_FAILED_PRECONDITION, "create", "the host provides no option_reader");
  }
  // T is bool, an integer, a floating-point type or std::string. Throws if there is no such option, or if its value is
  // null, of another type or out of T's range.
  template <typename T>
  T get(const char* name) const {
    if constexpr (std::is_same_v<T, bool>) {
      return read<int32_t>(name, reader_->get_bool) != 0;
    } else if constexpr (std::is_integral_v<T>) {
      const int64_t value = read<int64_t>(name, reader_->get_int);
      if (static_cast<int64_t>(static_cast<T>(value)) != value || (std::is_unsigned_v<T> && value < 0)) {
        refuse(name, MORTISE_OUT_OF_RANGE);
      }
      return static_cast<T>(value);
    } else if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(read<double>(name, reader_->get_float));
    } else {
      static_assert(std::is_same_v<T, std::string>, "take get_json() for arrays and objects");
      return std::string(view(read<mortise_string_view>(name, reader_->get_text)));
    }
  }
  // The value as JSON text, whatever its type. Throws if there is no such option, or if its value is null.
  std::string get_json(const char* name) const {
    return std::string(view(read<mortise_string_view>(name, reader_->get_json)));
  }
  // False for an optional value that was not given.
  bool has(const char* name) const {
    mortise_string_view value{};
    return reader_->get_json(reader_->context, name, &value) == MORTISE_OK;
  }
  // Whether the value is a text, for options that take several types.
  bool is_text(const char* name) const {
    mortise_string_view value{};
    return reader_->get_text(reader_->context, name, &value) == MORTISE_OK;
  }

 private:
  template <typename T>
  T read(const char* name, mortise_status (*getter)(void*, const char*, T*)) const {
    T value{};
    if (const mortise_status status = getter(reader_->context, name, &value); status != MORTISE_OK) {
      refuse(name, status);
    }
    return value;
  }
  [[noreturn]] static void refuse(const char* name, mortise_status status) {
    throw Failure(status, "create", std::string("option '") + name + "' is missing or has the wrong type");
  }

  const mortise_option_reader* reader_;
};

// The bytes of one element.
inline int dtype_bytes(int32_t dtype) {
  return (dtype & 0xff) / 8;
}

// A dense row-major tensor [rows, columns] over `data`, which it does not own.
inline mortise_tensor make_tensor(void* data, int32_t dtype, int64_t rows, int64_t columns) {
  mortise_tensor tensor = sized<mortise_tensor>();
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.ndim = 2;
  tensor.shape[0] = rows;
  tensor.shape[1] = columns;
  tensor.shape[2] = tensor.shape[3] = 1;
  tensor.stride[0] = columns;
  tensor.stride[1] = tensor.stride[2] = tensor.stride[3] = 1;
  tensor.bytes = static_cast<uint64_t>(rows * columns * dtype_bytes(dtype));
  return tensor;
}

}  // namespace mortise

// Defines the entry of a plugin file: MORTISE_PLUGIN("mortise.ngram", "Mortise", "0.1.0", "Apache-2.0", &kNgram, ...).
// The components are constants, so that the file can be read without running it (manifest.h).
#define MORTISE_PLUGIN(ID, VENDOR, VERSION, LICENSE, ...)                                                    \
  namespace {                                                                                                \
  const mortise_component* const mortise_components_[] = {__VA_ARGS__};                                      \
  const mortise_module mortise_module_ = {                                                                   \
      sizeof(mortise_module),                                                                                \
      0,                                                                                                     \
      MORTISE_ABI_MINOR,                                                                                     \
      static_cast<int32_t>(sizeof mortise_components_ / sizeof mortise_components_[0]),                      \
      ID,                                                                                                    \
      VENDOR,                                                                                                \
      VERSION,                                                                                               \
      LICENSE,                                                                                               \
      mortise_components_};                                                                                  \
  MORTISE_MANIFEST(mortise_module_);                                                                         \
  }                                                                                                          \
  MORTISE_EXTERN_C MORTISE_EXPORT const mortise_module* mortise_plugin_entry_v0(const mortise_entry_args*) { \
    return &mortise_module_;                                                                                 \
  }
