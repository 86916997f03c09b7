#include "scope.h"

namespace meshwright::onnx {

const Translations& translations() {
  static const Translations all = [] {
    Translations table;
    for (const auto add :
         {add_attention, add_convolutions, add_generators, add_indexing, add_joins, add_losses, add_norms,
          add_pointwise, add_pooling, add_products, add_reductions, add_sequences, add_views}) {
      add(table);
    }
    return table;
  }();
  return all;
}

}  // namespace meshwright::onnx
