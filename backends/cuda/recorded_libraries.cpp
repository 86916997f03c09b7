#include "recorded_libraries.h"

#include <algorithm>
#include <utility>

namespace meshwright::cuda {

template <class Planned>
Code RecordedLibraries::plan_one(std::map<int, Library<Planned>>& libraries, int device, const Planned& planned,
                                 EntryPoint opens, std::initializer_list<EntryPoint> calls, EntryPoint& entry) {
  const std::lock_guard lock(mutex_);
  Library<Planned>& library = libraries[device];
  if (!library.is_open) {
    entry = opens;
    if (const Code code = enter_(opens)) return code;
    library.is_open = true;
  }
  if (library.plans.contains(planned)) return 0;
  if (const Code code = enter_all(calls, entry)) return code;
  library.plans.insert(planned);
  return 0;
}

template <class Planned>
Code RecordedLibraries::release(std::map<int, Library<Planned>>& libraries, int device,
                                std::initializer_list<EntryPoint> calls, EntryPoint& entry) {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(libraries[device], {}).is_open) return 0;
  return enter_all(calls, entry);
}

Code RecordedLibraries::plan(int device, const ProductShape& shape, ProductPlan& plan, EntryPoint& entry) {
  plan = {true, kWorkspace};
  return plan_one(products_, device, shape, EntryPoint::products_create,
                  {EntryPoint::product_describe, EntryPoint::product_set, EntryPoint::layout_create,
                   EntryPoint::layout_set, EntryPoint::preference_create, EntryPoint::preference_set,
                   EntryPoint::choose_algorithm, EntryPoint::preference_destroy},
                  entry);
}

Code RecordedLibraries::plan(int device, const DnnGraph& graph, ProductPlan& plan, EntryPoint& entry) {
  plan = {true, std::max(kWorkspace, graph.kernel_bytes)};
  return plan_one(dnn_, device, graph, EntryPoint::dnn_create,
                  {EntryPoint::dnn_make, EntryPoint::dnn_set, EntryPoint::dnn_finalize, EntryPoint::dnn_get}, entry);
}

bool RecordedLibraries::is_planned(int device, const ProductShape& shape) {
  const std::lock_guard lock(mutex_);
  return products_[device].plans.contains(shape);
}

bool RecordedLibraries::is_planned(int device, const DnnGraph& graph) {
  const std::lock_guard lock(mutex_);
  return dnn_[device].plans.contains(graph);
}

Code RecordedLibraries::release_products(int device, EntryPoint& entry) {
  return release(products_, device,
                 {EntryPoint::layout_destroy, EntryPoint::product_forget, EntryPoint::products_destroy}, entry);
}

Code RecordedLibraries::release_dnn(int device, EntryPoint& entry) {
  return release(dnn_, device, {EntryPoint::dnn_forget, EntryPoint::dnn_destroy}, entry);
}

Code RecordedLibraries::enter_all(std::initializer_list<EntryPoint> calls, EntryPoint& entry) const {
  for (const EntryPoint call : calls) {
    entry = call;
    if (const Code code = enter_(call)) return code;
  }
  return 0;
}

}  // namespace meshwright::cuda
