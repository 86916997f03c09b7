// Products that take over what stands behind them (fused_product.h).
#include "execution.h"
#include "fused_product.h"
#include "step_builder.h"

namespace meshwright::cuda {

// A step's only command, and the product before it. Nothing is between both: no event, no wait, and nothing of another
// stream. What is made of them runs where the chain did, as a chain runs where it ends. `unread`: the product's result,
// which nobody else reads; null: it is kept.
Status StepBuilder::fuse_into_product(std::size_t step, const std::byte* unread) {
  if (!plans_.product || stream_ != kCompute || made_.commands[step].size() != 1) return Done{};
  std::size_t before = step;
  do {
    if (before-- == 0) return Done{};
  } while (made_.commands[before].empty());
  Command& chain = made_.commands[step].back();
  const Command& made_by = made_.commands[before].back();
  const auto* launch = std::get_if<Launch>(&chain.what);
  const auto* product = std::get_if<Product>(&made_by.what);
  if (launch == nullptr || product == nullptr || chain.stream != kCompute || made_by.stream != kCompute ||
      (unread != nullptr && product->result != unread))
    return Done{};
  std::optional<Product> fused = with_activation(*product, *launch, unread == nullptr);
  if (!fused && unread != nullptr) fused = with_addend(*product, *launch);
  if (!fused) return Done{};
  const Result<std::optional<std::size_t>> workspace = plans_.product(fused->shape);
  if (!workspace) return workspace.error();
  if (!*workspace) return Done{};
  // Behind what the product's instruction has in scratch. It is counted even if nothing comes of it below: while sizes
  // are unknown, scratch seems to overlap the arena, and the size that is found then must do.
  fused->workspace_bytes = **workspace;
  if (fused->workspace_bytes > product->workspace_bytes) {
    scratch_used_ = scratch_behind_[before];
    fused->workspace = workspace_in([this](std::size_t bytes) { return scratch(bytes); }, fused->workspace_bytes);
  }
  if (overwrites_itself(*fused)) return Done{};
  made_.commands[before].pop_back();
  chain.what = *fused;
  if (chain_ == &made_.commands[step]) chain_ = nullptr;
  return Done{};
}

// What `drop` has left, with operands that are kept. (Where the operand is dropped, both become one even if the chain
// would have gone on: its rest reads the first link's result from memory where that read the operand, and no more bytes
// move than before. An operand that is kept is written in any case; so this pays only where the activation
// ends its chain, since what one makes in the middle may never be written.)
Status StepBuilder::fuse_kept_activations() {
  for (std::size_t step = 0; step < made_.commands.size(); ++step) {
    if (Status status = fuse_into_product(step, nullptr); !status)
      return add_context(describe(program_, steps_[step]), status.error());
  }
  return Done{};
}

}  // namespace meshwright::cuda
