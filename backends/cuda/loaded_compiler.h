// NVRTC, as the machine has it, loaded when it is first asked for: compiles kernels when a plan is.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "driver.h"
#include "library_symbol.h"

namespace meshwright::cuda {

class LoadedCompiler {
 public:
  // The first of these libraries that is found; where there is none, a warning says so.
  explicit LoadedCompiler(std::initializer_list<const char*> names = {"libnvrtc.so.13", "libnvrtc.so.12",
                                                                      "libnvrtc.so"});

  [[nodiscard]] bool is_there() const { return is_there_; }
  // `made`: a module for GPUs of this architecture (90: sm_90). Codes are NVRTC's; what a compiler says against a
  // source is logged. `entry`: the call that failed.
  Code compile(const std::string& source, int architecture, std::vector<char>& made, EntryPoint& entry) const;
  [[nodiscard]] const char* text(Code code) const { return text_ != nullptr ? text_(code) : nullptr; }

 private:
  bool find_all(void* library);
  Code make_module(void* program, int architecture, std::vector<char>& made, EntryPoint& entry) const;
  void log_errors(void* program) const;

  bool is_there_ = false;
  const char* (*text_)(int) = nullptr;
  Symbol<void**, const char*, const char*, int, const char* const*, const char* const*> create_;
  Symbol<void*, int, const char* const*> compile_;
  Symbol<void*, std::size_t*> get_size_, get_log_size_;
  Symbol<void*, char*> get_module_, get_log_;
  Symbol<void**> destroy_;
};

}  // namespace meshwright::cuda
