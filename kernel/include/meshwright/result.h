// A value or an error that a user can act on. No exception crosses a plugin's boundary; functions that can fail
// on bad input return Result<T>, and broken invariants of our own are asserts.
//
// An error's message is one sentence or two: what is wrong, where, and what would fix it. Its code is the exit
// code of the program (DESIGN §4).
#pragma once

#include <cassert>
#include <string>
#include <utility>
#include <variant>

namespace meshwright {

enum class ErrorCode : int {
  internal = 1,       // our own fault
  bad_input = 2,      // a file, an option or a name that the user gave
  infeasible = 3,     // no plan fits
  plugin_failed = 4,  // a plugin broke its contract
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
};

inline Error bad_input(std::string message) { return {ErrorCode::bad_input, std::move(message)}; }
inline Error infeasible(std::string message) { return {ErrorCode::infeasible, std::move(message)}; }
inline Error plugin_failed(std::string message) { return {ErrorCode::plugin_failed, std::move(message)}; }
inline Error internal_error(std::string message) { return {ErrorCode::internal, std::move(message)}; }

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit, so that `return value;` works
  Result(Error error) : state_(std::move(error)) {}  // NOLINT

  [[nodiscard]] bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  [[nodiscard]] T& value() & { assert(ok()); return std::get<0>(state_); }
  [[nodiscard]] const T& value() const& { assert(ok()); return std::get<0>(state_); }
  [[nodiscard]] T value() && { assert(ok()); return std::get<0>(std::move(state_)); }  // by value: no dangling
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  [[nodiscard]] const Error& error() const { assert(!ok()); return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

struct Done {};
using Status = Result<Done>;  // for functions that give nothing but may fail: `return Done{};`

// The same error with `where` in front: "where: message".
inline Error add_context(const std::string& where, Error error) {
  error.message = where + ": " + error.message;
  return error;
}

}  // namespace meshwright
