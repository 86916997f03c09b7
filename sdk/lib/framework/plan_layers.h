// The layers of a model, as a plan cuts them into stages and runs them again: what frameworks count.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "meshwright/plan.h"

namespace meshwright::framework {

// Of a layer, told apart by what its ops are and by its submodules: attention between positions without its products with weights; norms; the submodule with experts; one with
// products with weights and no attention; and all else.
enum class LayerPart : std::uint8_t { attention, norm, mlp, experts, other };
inline constexpr std::size_t kLayerParts = 5;

struct PartOps {
  std::vector<std::string> ops;  // names of nodes that could run again for the backward, views left out
  double again_seconds = 0;      // of the forwards that run again
  bool runs_again = false;       // what a framework means by running this part again: most norms; of others a product, attention, or experts
};

// A block of the model (block_of in gather_units.h).
struct Layer {
  std::string name;             // "transformer.h.3"
  std::uint32_t stage = 0;      // along the model, in which most of its computing is
  bool is_split = false;        // some of its computing is in another stage
  bool all_again = false;       // all that could run again does
  std::array<PartOps, kLayerParts> parts;
  std::vector<std::string> products;  // of the ops: products with weights, and attention

  [[nodiscard]] const PartOps& part(LayerPart which) const { return parts[static_cast<std::size_t>(which)]; }
  [[nodiscard]] bool any_again() const;
};

struct PlanLayers {
  std::vector<Layer> layers;          // in the model's order
  std::vector<std::string> lists;     // what they are in, without the number: "transformer.h"
  std::int64_t converted_again = 0;   // operands that are (recompute.h)
  double again_outside_seconds = 0;   // of forwards that run again in no layer
};

// `stages`: the plans of the model's stages, or the only one. Errors: those of `recomputation`.
Result<PlanLayers> layers_of(std::span<const Plan* const> stages);

}  // namespace meshwright::framework
