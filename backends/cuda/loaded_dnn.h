// cuDNN, as the machine has it, loaded when it is first asked for.
#pragma once

#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "driver.h"
#include "library_symbol.h"

namespace meshwright::cuda {

// A plan for each graph and device. Thread-safe; a device is set on the thread that calls. Plans that are not
// deterministic are not taken, nor any that rounds factors, or what is summed, to less than their type.
class LoadedDnn {
 public:
  // The first of these libraries that is found. `tf32`: factors of float32 may be rounded to TF32. `properties`: of a
  // GPU that need not be there, as cuDNN 9.8 and later write them in JSON; "": of the device that is set. Without one
  // nothing runs.
  explicit LoadedDnn(bool tf32, std::initializer_list<const char*> names = {"libcudnn.so.9"},
                     std::string properties = "");

  // Codes are cuDNN's. Nothing is found without the library, nor what it does not support.
  Code plan(int device, const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry);
  Code run(int device, const DnnCall& call, void* stream, EntryPoint& entry);
  Code release(int device, EntryPoint& entry);
  [[nodiscard]] bool is_there() const { return is_there_; }
  [[nodiscard]] const char* text(Code code) const { return text_ != nullptr ? text_(code) : nullptr; }

 private:
  // All descriptors of a graph, and its plan, which is one of them; null: none is supported.
  struct Planned {
    std::vector<void*> descriptors;
    void* plan = nullptr;
    std::int64_t workspace_bytes = 0;
  };
  struct Device {
    void* handle = nullptr;
    void* properties = nullptr;  // a descriptor
    std::map<DnnGraph, Planned> plans;
  };

  bool find_all(void* library);
  Code open(Device& device, EntryPoint& entry);
  Code make(const Device& device, const DnnGraph& graph, Planned& planned, EntryPoint& entry);
  // Which engines are asked for, and what they may need.
  struct Wish {
    DType factors = DType::float32;
    std::int32_t mode = 0;
    std::int64_t workspace_bytes = 0;  // at most
  };
  Code choose(const Device& device, const Wish& wish, void* graph, Planned& planned, EntryPoint& entry);
  // Whether an engine's notes allow it; its plan is the answer then, if it can be made.
  Code try_engine(const Device& device, const Wish& wish, void* config, Planned& planned, EntryPoint& entry);
  Code pack(const DnnCall& call, void* made, EntryPoint& entry);

  // Each says which call it was that failed.
  Code make_descriptor(int kind, void*& made, EntryPoint& entry);
  Code make_kept(int kind, Planned& planned, void*& made, EntryPoint& entry);
  Code set(void* descriptor, int attribute, int type, std::int64_t count, const void* values, EntryPoint& entry);
  Code get(void* descriptor, int attribute, int type, std::int64_t room, std::int64_t& count, void* values,
           EntryPoint& entry);
  Code finalize(void* descriptor, EntryPoint& entry);
  Code forget(Planned& planned, EntryPoint& entry);

  const bool tf32_;
  const std::string properties_;
  bool is_there_ = false;
  const char* (*text_)(int) = nullptr;
  Symbol<void**> create_;
  Symbol<void*> destroy_, finalize_, forget_;
  Symbol<void*, void*> set_stream_;
  Symbol<int, void**> make_;
  Symbol<void*, int, int, std::int64_t, const void*> set_;
  Symbol<void*, int, int, std::int64_t, std::int64_t*, void*> get_;
  Symbol<void*, void*, void*> execute_;

  std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace meshwright::cuda
