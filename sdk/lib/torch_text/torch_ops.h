// What an emitter for the backend "torch" is made of: a table of ops, each with the form in which people write it, a
// function for what no form can say, or both.
//
//   constexpr TorchOp kOps[] = {{"torch:aten.mm", "{self} @ {mat2}"}, {"torch:aten.slice.Tensor", "", slice}};
//   constexpr auto kServes = served(kOps);
//   MESHWRIGHT_PLUGIN("emitters", "torch_example", "0.1.0", "Apache-2.0", "...", kServes.data(), nullptr, 0,
//                     create_torch_emitter<kOps>, destroy_plugin<OpEmitter>)
//
// The text stands in a method of an nn.Module: `self.training` is its mode, and torch, F (torch.nn.functional), nn and
// the definitions of the prelude are at hand (backends/torch/prelude, and the emitter's own).
#pragma once

#include <array>
#include <span>

#include "call_text.h"
#include "meshwright/config.h"
#include "meshwright/op_emitter.h"

namespace meshwright::torch {

struct TorchOp {
  const char* name;  // "torch:aten.mm"
  // See CallText::in_form. Taken where the call is one op on local shapes that does not depend on the rank.
  const char* form = "";
  // Asked first. An empty text leaves the call to the form, and then to the op's schema.
  Result<EmittedOp> (*write)(const EmitterCall& call, const CallText& text) = nullptr;
};

template <std::size_t count>
constexpr std::array<const char*, count + 1> served(const TorchOp (&ops)[count]) {
  std::array<const char*, count + 1> names{};
  for (std::size_t i = 0; i < count; ++i) names[i] = ops[i].name;
  return names;
}

class TorchEmitter final : public OpEmitter {
 public:
  explicit TorchEmitter(std::span<const TorchOp> ops) : ops_(ops) {}

 private:
  Result<EmittedOp> do_emit(const EmitterCall& call) const override;

  std::span<const TorchOp> ops_;
};

template <const auto& ops>
void* create_torch_emitter(const Config&, Error&) {
  return static_cast<OpEmitter*>(new TorchEmitter(ops));
}

// Of an op that returns a list of tensors: where it has one result, that element of it.
Result<EmittedOp> write_list(const EmitterCall& call, const CallText& text);

// PyTorch's own random numbers, of an op that draws all of them on every rank: generators are seeded alike for it.
// Errors: bad_input if a rank has a part of a tensor.
Result<EmittedOp> write_drawn_alike(const EmitterCall& call, const CallText& text);

}  // namespace meshwright::torch
