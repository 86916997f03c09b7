// What a recording driver's libraries have planned, by device: cuBLASLt's products and cuDNN's graphs. They plan all.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <mutex>
#include <set>

#include "driver.h"

namespace meshwright::cuda {

// Thread-safe.
class RecordedLibraries {
 public:
  static constexpr std::size_t kWorkspace = 192;  // bytes, of each plan

  // `enter`: takes a call down, and gives the code with which it is to fail, or 0.
  explicit RecordedLibraries(std::function<Code(EntryPoint)> enter) : enter_(std::move(enter)) {}

  Code plan(int device, const ProductShape& shape, ProductPlan& plan, EntryPoint& entry);
  Code plan(int device, const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry);
  [[nodiscard]] bool is_planned(int device, const ProductShape& shape);
  [[nodiscard]] bool is_planned(int device, const DnnGraph& graph);
  Code release_products(int device, EntryPoint& entry);
  Code release_dnn(int device, EntryPoint& entry);

  // `entry`: the last one that was called.
  Code enter_all(std::initializer_list<EntryPoint> calls, EntryPoint& entry) const;

 private:
  template <class Planned>
  struct Library {
    bool is_open = false;
    std::set<Planned> plans;
  };
  template <class Planned>
  Code plan_one(std::map<int, Library<Planned>>& libraries, int device, const Planned& planned, EntryPoint opens,
                std::initializer_list<EntryPoint> calls, EntryPoint& entry);
  template <class Planned>
  Code release(std::map<int, Library<Planned>>& libraries, int device, std::initializer_list<EntryPoint> calls,
               EntryPoint& entry);

  const std::function<Code(EntryPoint)> enter_;
  std::mutex mutex_;
  std::map<int, Library<ProductShape>> products_;
  std::map<int, Library<DnnGraph>> dnn_;
};

}  // namespace meshwright::cuda
