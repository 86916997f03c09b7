// Products by cuBLASLt, as the machine has it, loaded when it is first asked for.
#pragma once

#include <initializer_list>
#include <map>
#include <mutex>

#include "cublaslt.h"
#include "driver.h"
#include "library_symbol.h"

namespace meshwright::cuda {

// Descriptors and an algorithm for each shape and device. Thread-safe; a device is set on the thread that calls.
class LoadedProducts {
 public:
  // The first of these libraries that is found. `tf32`: factors may be rounded to TF32.
  explicit LoadedProducts(bool tf32, std::initializer_list<const char*> names = {
                                         "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"});

  // Codes are cuBLASLt's. Nothing is found without the library.
  Code plan(int device, const ProductShape& shape, ProductPlan& plan, EntryPoint& entry);
  Code run(int device, const Product& product, void* stream);
  Code release(int device, EntryPoint& entry);
  [[nodiscard]] const char* text(Code code) const { return text_ != nullptr ? text_(code) : nullptr; }

 private:
  // The library's descriptors; null where they are not made. Of a shape for which no algorithm is found all are null.
  struct Planned {
    void *operation = nullptr, *a = nullptr, *b = nullptr, *c = nullptr, *d = nullptr;
    cublaslt::Choice choice;
  };
  struct Device {
    void* handle = nullptr;
    std::map<ProductShape, Planned> plans;
  };

  bool find_all(void* library);
  Code make(Device& device, const ProductShape& shape, Planned& planned, EntryPoint& entry);
  Code describe(const ColumnProduct& product, Planned& planned, EntryPoint& entry);
  Code describe(const ColumnLayout& layout, int type, std::int32_t batches, void*& made, EntryPoint& entry);
  Code describe_epilogue(const ColumnProduct& product, const Planned& planned, EntryPoint& entry);
  // Null: there is none.
  Code set_addresses(const Planned& planned, const std::byte* bias, const std::byte* aux);
  Code choose(void* handle, const ColumnProduct& product, Planned& planned, EntryPoint& entry);
  Code prefer(void* preference, const ColumnProduct& product, EntryPoint& entry);
  Code forget(Planned& planned, EntryPoint& entry);

  const int computing_;  // products of float32, as cuBLASLt numbers it
  bool is_there_ = false;
  const char* (*text_)(int) = nullptr;
  Symbol<void**> create_;
  Symbol<void*> destroy_, forget_operation_, forget_layout_, forget_preference_;
  Symbol<void**, int, int> create_operation_;
  Symbol<void*, int, const void*, std::size_t> set_operation_, set_layout_, set_preference_;
  Symbol<void**, int, std::uint64_t, std::uint64_t, std::int64_t> create_layout_;
  Symbol<void**> create_preference_;
  Symbol<void*, void*, void*, void*, void*, void*, void*, int, cublaslt::Choice*, int*> choose_;
  Symbol<void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*,
         void*, const cublaslt::Algorithm*, void*, std::size_t, void*>
      multiply_;

  std::mutex mutex_;
  std::map<int, Device> devices_;
};

}  // namespace meshwright::cuda
