#include "attention_mask.h"

#include <utility>

namespace meshwright::cuda {

Status give_mask(AttentionArguments& arguments, const Seen& mask, std::vector<std::int64_t> shape,
                 std::vector<std::int64_t> strides) {
  arguments.mask_step = strides.back();
  shape.pop_back();
  strides.pop_back();
  const Walk walk = walk_over(shape, {std::move(strides)});
  const Result<Sizes> sizes = sizes_for(walk.sizes);
  const Result<View> view = view_for(mask, walk.strides[0]);
  if (!sizes) return sizes.error();
  if (!view) return view.error();
  arguments.has_mask = true;
  arguments.scores = *sizes;
  arguments.mask = *view;
  return Done{};
}

}  // namespace meshwright::cuda
